//! The id of all events that belong to one request.

use std::fmt;

use mcp_core::trace::TraceContext;
use upstream::random;
use uuid::{Builder, Uuid};

/// A trace id of W3C Trace Context: 128 bits, not all zero. Displayed as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// A random id, which is also a version 4 UUID.
    pub fn random() -> Self {
        let random = (u128::from(random::number()) << 64) | u128::from(random::number());
        let id = Builder::from_random_bytes(random.to_be_bytes()).into_uuid();
        Self(id.as_u128())
    }

    /// Parses 32 hexadecimal digits or a UUID.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = matches!(text.len(), 32 | 36);
        let id = Uuid::try_parse(text).ok().filter(|_| plain)?.as_u128();
        (id != 0).then_some(Self(id))
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl From<&TraceContext> for TraceId {
    fn from(context: &TraceContext) -> Self {
        Self(context.trace_id())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_and_hex_digits_are_the_same_id() {
        let uuid = TraceId::parse("550E8400-e29b-41d4-a716-446655440000").unwrap();
        let hex = TraceId::parse("550e8400e29b41d4a716446655440000").unwrap();
        assert_eq!(uuid, hex);
        assert_eq!(uuid.to_string(), "550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(TraceId::from_bytes(uuid.to_bytes()), uuid);
        let zero = "0".repeat(32);
        let braced = "{550e8400-e29b-41d4-a716-446655440000}";
        for bad in ["", "550e8400", &zero, braced, "ä"] {
            assert_eq!(TraceId::parse(bad), None, "{bad}");
        }
    }
}
