//! What npm, pip and cargo say when there is no network.

const SIGNS: [&str; 11] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ETIMEDOUT",
    "ENETUNREACH",
    "Temporary failure in name resolution",
    "Name or service not known",
    "NewConnectionError",
    "ConnectTimeout",
    "Could not resolve host",
    "Could not connect to server",
];

/// True if this output is that of an installation without a network.
pub(crate) fn was_out_of_reach(output: &str) -> bool {
    SIGNS.iter().any(|sign| output.contains(sign))
}
