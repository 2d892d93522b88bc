//! To which era a request belongs: decided for every request by itself.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::revision::{MODERN, Revision};

/// The three dialects on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// No handshake, no session: what the seeds show. Otherwise the rules of 2025-03-26, the
    /// revision that the specification tells servers to assume where a client names none.
    Unversioned,
    /// After `initialize`, at the negotiated revision.
    Legacy(Revision),
    /// 2026-07-28: stateless, every request describes itself.
    Modern,
}

/// What a transport knows about a request beside its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<&'a str>,
    /// `Mcp-Method`.
    pub method: Option<&'a str>,
    /// `Mcp-Name`.
    pub name: Option<&'a str>,
    /// `Mcp-Param-…`: the rest of the name, and the value as it came.
    pub params: &'a [(&'a str, &'a [u8])],
    /// W3C `traceparent`.
    pub traceparent: Option<&'a str>,
    /// What `initialize` negotiated on this connection (stdio) or in this session.
    pub negotiated: Option<Revision>,
    /// True over HTTP, where the modern era repeats the envelope in headers.
    pub has_headers: bool,
}

impl Era {
    /// Decides by headers alone, for a body that could not be read.
    pub fn from_headers(hints: &Hints<'_>) -> Self {
        Self::decide(hints, "", None)
    }

    /// Decides for one request or notification.
    pub fn decide(hints: &Hints<'_>, method: &str, params: Option<&RawValue>) -> Self {
        let object = params.filter(|params| params.get().starts_with('{'));
        let meta = object.and_then(|params| meta_of(params).ok().flatten());
        Self::decide_by_meta(hints, method, meta)
    }

    /// Decides for one request whose parameters have this `_meta`.
    pub(crate) fn decide_by_meta(hints: &Hints<'_>, method: &str, meta: Option<&RawValue>) -> Self {
        let named = hints.protocol_version.map(Revision::parse);
        // `Mcp-Method` alone decides nothing: real clients send it in every era (mcp-remote 0.15 with
        // its `initialize`).
        if named == Some(None) || names_version(meta) {
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

    /// True if several messages may travel in one array.
    pub fn allows_batch(self) -> bool {
        match self {
            Self::Unversioned => true,
            Self::Legacy(revision) => revision <= Revision::V2025_03_26,
            Self::Modern => false,
        }
    }

    /// The name of the revision whose rules hold.
    pub fn revision(self) -> &'static str {
        match self {
            Self::Unversioned => Revision::V2025_03_26.as_str(),
            Self::Legacy(revision) => revision.as_str(),
            Self::Modern => MODERN,
        }
    }
}

/// The `_meta` of parameters that are an object, unread.
pub(crate) fn meta_of(params: &RawValue) -> serde_json::Result<Option<&RawValue>> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    serde_json::from_str::<Params<'_>>(params.get()).map(|params| params.meta)
}

/// True if `_meta` names a protocol version, which only modern clients do.
fn names_version(meta: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
        version: Option<&'a RawValue>,
    }
    let meta = meta.filter(|meta| meta.get().starts_with('{'));
    meta.and_then(|meta| serde_json::from_str::<Meta<'_>>(meta.get()).ok())
        .is_some_and(|meta| meta.version.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    #[track_caller]
    fn check(hints: Hints<'_>, method: &str, params: Option<&str>, expected: Era) {
        let params = params.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(Era::decide(&hints, method, params.as_deref()), expected);
    }

    #[test]
    fn every_request_has_one_era() {
        let none = Hints::default();
        let version = |date| Hints {
            protocol_version: Some(date),
            ..none
        };
        let negotiated = Hints {
            negotiated: Some(Revision::V2024_11_05),
            ..none
        };

        check(none, "tools/list", None, Era::Unversioned);
        check(none, "mcp.listTools", Some("{}"), Era::Unversioned);
        check(none, "initialize", None, Era::Legacy(Revision::LATEST));
        check(
            negotiated,
            "tools/list",
            None,
            Era::Legacy(Revision::V2024_11_05),
        );
        check(
            version("2025-06-18"),
            "tools/list",
            None,
            Era::Legacy(Revision::V2025_06_18),
        );
        check(version("2026-07-28"), "tools/list", None, Era::Modern);
        check(version("2026-07-28"), "initialize", None, Era::Modern);
        check(version("1999-01-01"), "tools/list", None, Era::Modern);
        check(none, "tools/list", Some(META), Era::Modern);
        check(negotiated, "tools/list", Some(META), Era::Modern);
        check(version("2025-06-18"), "tools/list", Some(META), Era::Modern);
        let method = |method| Hints {
            method: Some(method),
            ..none
        };
        check(method("tools/list"), "tools/list", None, Era::Unversioned);
        check(
            method("initialize"),
            "initialize",
            None,
            Era::Legacy(Revision::LATEST),
        );
        check(
            Hints {
                method: Some("tools/list"),
                ..version("2025-11-25")
            },
            "tools/list",
            None,
            Era::Legacy(Revision::V2025_11_25),
        );
        check(
            none,
            "tools/list",
            Some(r#"{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}"#),
            Era::Modern,
        );
        check(
            none,
            "tools/list",
            Some(r#"{"_meta":{"\u0069o.\u006dodelcontextprotocol/protocolVersion":1}}"#),
            Era::Modern,
        );
        // The name in a value decides nothing, nor does a position.
        check(
            none,
            "tools/list",
            Some(&format!("[{META}]")),
            Era::Unversioned,
        );
        check(
            none,
            "tools/list",
            Some(r#"{"_meta":["io.modelcontextprotocol/protocolVersion"]}"#),
            Era::Unversioned,
        );
        check(
            none,
            "tools/call",
            Some(r#"{"x":"io.modelcontextprotocol/protocolVersion"}"#),
            Era::Unversioned,
        );
    }
}
