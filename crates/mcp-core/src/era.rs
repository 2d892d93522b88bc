//! Decides which era each request belongs to.

use crate::meta::Meta;
use crate::revision::{MODERN, Revision};

/// The three dialects on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// No handshake, no session and no version, as the seeds show it. The rules of 2025-03-26 hold,
    /// the revision that the specification tells servers to assume if a client names none.
    Unversioned,
    /// `initialize`, and what follows it at the negotiated revision.
    Legacy(Revision),
    /// 2026-07-28: stateless, every request describes itself.
    Modern,
}

impl Era {
    /// Decides for a body that cannot be read, by the version that its `MCP-Protocol-Version` names, and the revision
    /// that `initialize` has negotiated on this connection (stdio) or in this session.
    pub fn without_body(version: Option<&str>, negotiated: Option<Revision>) -> Self {
        Self::decide(version, negotiated, "", None)
    }

    /// Decides for one request whose parameters have this `_meta`.
    pub(crate) fn decide(
        version: Option<&str>,
        negotiated: Option<Revision>,
        method: &str,
        meta: Option<Meta<'_>>,
    ) -> Self {
        let named = version.map(Revision::parse);
        // `Mcp-Method` decides nothing: real clients send it in every era (mcp-remote 0.15 with its `initialize`).
        // Only modern clients name a version in `_meta`.
        if named == Some(None) || meta.is_some_and(|meta| meta.version.is_some()) {
            return Self::Modern;
        }
        match named.flatten().or(negotiated) {
            Some(revision) => Self::Legacy(revision),
            None if method == "initialize" => Self::Legacy(Revision::LATEST),
            None => Self::Unversioned,
        }
    }

    /// True if this era knows what `revision` introduced.
    pub fn knows(self, revision: Revision) -> bool {
        match self {
            Self::Unversioned => Revision::V2025_03_26 >= revision,
            Self::Legacy(negotiated) => negotiated >= revision,
            Self::Modern => true,
        }
    }

    /// True if batches are allowed: several messages in one array.
    pub fn allows_batch(self) -> bool {
        match self {
            Self::Unversioned => true,
            Self::Legacy(revision) => revision <= Revision::V2025_03_26,
            Self::Modern => false,
        }
    }

    /// The date of the revision whose rules hold.
    pub fn revision(self) -> &'static str {
        match self {
            Self::Unversioned => Revision::V2025_03_26.as_str(),
            Self::Legacy(revision) => revision.as_str(),
            Self::Modern => MODERN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::member;

    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    const META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    #[test]
    fn every_request_has_one_era() {
        let old = Some(Revision::V2024_11_05);
        let in_array = format!("[{META}]");
        let escaped = META.replace("io.m", r"\u0069o.\u006d");
        let as_item = format!(r#"{{"_meta":["{VERSION}"]}}"#);
        let as_value = format!(r#"{{"x":"{VERSION}"}}"#);
        let (list, legacy, unversioned) = ("tools/list", Era::Legacy, Era::Unversioned);
        let (june, november) = (Revision::V2025_06_18, Revision::V2025_11_25);
        for (version, negotiated, method, params, expected) in [
            (None, None, list, "", unversioned),
            (None, None, "mcp.listTools", "{}", unversioned),
            (None, None, "initialize", "", legacy(Revision::LATEST)),
            (None, old, list, "", legacy(Revision::V2024_11_05)),
            (Some("2025-06-18"), None, list, "", legacy(june)),
            (Some("2025-11-25"), old, list, "", legacy(november)),
            (Some("2026-07-28"), None, list, "", Era::Modern),
            (Some("2026-07-28"), None, "initialize", "", Era::Modern),
            (Some("1999-01-01"), None, list, "", Era::Modern),
            (None, None, list, META, Era::Modern),
            (None, old, list, META, Era::Modern),
            (Some("2025-06-18"), None, list, META, Era::Modern),
            (None, None, list, &META.replace('/', r"\/"), Era::Modern),
            (None, None, list, &escaped, Era::Modern),
            // The name as a value, or in an array, decides nothing.
            (None, None, list, &in_array, unversioned),
            (None, None, list, &as_item, unversioned),
            (None, None, "tools/call", &as_value, unversioned),
        ] {
            let meta = member(params, "_meta");
            let meta = meta.map(|meta| serde_json::from_str(meta).unwrap());
            let era = Era::decide(version, negotiated, method, meta.map(Meta::read));
            assert_eq!(era, expected, "{method} {params}");
            if method == list && params.is_empty() {
                assert_eq!(Era::without_body(version, negotiated), expected);
            }
        }
    }
}
