//! Bytes as text.

/// Returns `bytes` in hexadecimal digits, in lower case.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
