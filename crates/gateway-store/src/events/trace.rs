//! The id of all events that belong to one request: a trace id of W3C Trace Context, which is shown as a UUID.

use mcp_core::trace::TraceContext;
use uuid::Uuid;

/// 128 bits, not all zero.
pub type TraceId = Uuid;

/// The id of the trace that a request belongs to.
pub fn trace_of(context: &TraceContext) -> TraceId {
    Uuid::from_u128(context.trace_id())
}

/// Parses 32 hexadecimal digits or a UUID.
pub fn parse_trace(text: &str) -> Option<TraceId> {
    let is_plain = matches!(text.len(), 32 | 36);
    let id = Uuid::try_parse(text).ok()?;
    (is_plain && !id.is_nil()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_and_hex_digits_are_the_same_id() {
        let uuid = parse_trace("550E8400-e29b-41d4-a716-446655440000").unwrap();
        assert_eq!(parse_trace("550e8400e29b41d4a716446655440000"), Some(uuid));
        assert_eq!(uuid.to_string(), "550e8400-e29b-41d4-a716-446655440000");
        let zero = "0".repeat(32);
        let braced = "{550e8400-e29b-41d4-a716-446655440000}";
        for bad in ["", "550e8400", &zero, braced, "ä"] {
            assert_eq!(parse_trace(bad), None, "{bad}");
        }
    }
}
