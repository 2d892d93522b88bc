//! Decides which era each request belongs to.

use serde_json::value::RawValue;

use crate::meta::Meta;
use crate::revision::{MODERN, Revision};
use crate::trace::TraceFields;

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

/// Facts that a transport knows about a request, apart from its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<&'a str>,
    /// `Mcp-Method`.
    pub method: Option<&'a str>,
    /// `Mcp-Name`.
    pub name: Option<&'a str>,
    /// `Mcp-Param-…`: the rest of the name, and the raw value.
    pub params: &'a [(&'a str, &'a [u8])],
    /// The trace that the client continues.
    pub trace: TraceFields<'a>,
    /// The revision that `initialize` negotiated on this connection (stdio) or in this session.
    pub negotiated: Option<Revision>,
    /// True over HTTP, where the modern era repeats the envelope in headers.
    pub has_headers: bool,
    /// True over HTTP+SSE, the transport of 2024-11-05, on which requests of the modern era are refused.
    pub is_old_transport: bool,
}

impl Era {
    /// Decides by the headers alone, for a body that cannot be read.
    pub fn from_headers(hints: &Hints<'_>) -> Self {
        Self::decide_by_meta(hints, "", None)
    }

    /// Decides for one request or notification with these parameters.
    pub fn decide(hints: &Hints<'_>, method: &str, params: Option<&RawValue>) -> Self {
        Self::decide_by_meta(hints, method, params.and_then(Meta::of_params))
    }

    /// Decides for one request whose parameters have this `_meta`.
    pub(crate) fn decide_by_meta(hints: &Hints<'_>, method: &str, meta: Option<Meta<'_>>) -> Self {
        let named = hints.protocol_version.map(Revision::parse);
        // `Mcp-Method` alone decides nothing: real clients send it in every era (mcp-remote 0.15 with
        // its `initialize`).
        // Only modern clients name a version in `_meta`.
        if named == Some(None) || meta.is_some_and(|meta| meta.version.is_some()) {
            return Self::Modern;
        }
        match named.flatten().or(hints.negotiated) {
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

    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    const META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    #[test]
    fn every_request_has_one_era() {
        let none = Hints::default();
        let version = |date| Hints {
            protocol_version: Some(date),
            ..none
        };
        let named = |hints| Hints {
            method: Some("tools/list"),
            ..hints
        };
        let negotiated = Hints {
            negotiated: Some(Revision::V2024_11_05),
            ..none
        };
        let in_array = format!("[{META}]");
        let as_item = format!(r#"{{"_meta":["{VERSION}"]}}"#);
        let as_value = format!(r#"{{"x":"{VERSION}"}}"#);
        let (list, legacy, unversioned) = ("tools/list", Era::Legacy, Era::Unversioned);
        let (june, november) = (Revision::V2025_06_18, Revision::V2025_11_25);
        for (hints, method, params, expected) in [
            (none, list, "", unversioned),
            (none, "mcp.listTools", "{}", unversioned),
            (none, "initialize", "", legacy(Revision::LATEST)),
            (negotiated, list, "", legacy(Revision::V2024_11_05)),
            (version("2025-06-18"), list, "", legacy(june)),
            (version("2026-07-28"), list, "", Era::Modern),
            (version("2026-07-28"), "initialize", "", Era::Modern),
            (version("1999-01-01"), list, "", Era::Modern),
            (none, list, META, Era::Modern),
            (negotiated, list, META, Era::Modern),
            (version("2025-06-18"), list, META, Era::Modern),
            (named(none), list, "", unversioned),
            (named(none), "initialize", "", legacy(Revision::LATEST)),
            (named(version("2025-11-25")), list, "", legacy(november)),
            (none, list, &META.replace('/', r"\/"), Era::Modern),
            (
                none,
                list,
                &META.replace("io.m", r"\u0069o.\u006d"),
                Era::Modern,
            ),
            // The name as a value, or in an array, decides nothing.
            (none, list, &in_array, unversioned),
            (none, list, &as_item, unversioned),
            (none, "tools/call", &as_value, unversioned),
        ] {
            let raw = RawValue::from_string(params.to_owned()).ok();
            let era = Era::decide(&hints, method, raw.as_deref());
            assert_eq!(era, expected, "{method} {params}");
            if method == list && params.is_empty() {
                assert_eq!(Era::from_headers(&hints), expected);
            }
        }
    }
}
