//! The era decision, over every combination of what it depends on.

use mcp_core::era::{Era, Hints};
use mcp_core::revision::Revision;
use serde_json::value::RawValue;

const VERSIONS: [Option<&str>; 9] = [
    None,
    Some("2024-11-05"),
    Some("2025-03-26"),
    Some("2025-06-18"),
    Some("2025-11-25"),
    Some("2026-07-28"),
    Some("2027-01-01"),
    Some("nonsense"),
    Some(""),
];

/// Parameters, and whether their `_meta` names a version.
const PARAMS: [(Option<&str>, bool); 12] = [
    (None, false),
    (Some("{}"), false),
    (Some("[]"), false),
    (Some(r#"{"_meta":{}}"#), false),
    (Some(r#"{"_meta":null}"#), false),
    (
        Some(r#"{"_meta":"io.modelcontextprotocol/protocolVersion"}"#),
        false,
    ),
    (
        Some(r#"{"_meta":{"progressToken":"io.modelcontextprotocol/protocolVersion"}}"#),
        false,
    ),
    (
        Some(r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#),
        false,
    ),
    (
        Some(r#"{"a":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#),
        false,
    ),
    (
        Some(r#"[{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}]"#),
        false,
    ),
    (
        Some(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#),
        true,
    ),
    (
        Some(r#"{"a":1,"_meta" : {"x":[],"io.modelcontextprotocol\/protocolVersion":7}}"#),
        true,
    ),
];

const MCP_METHODS: [Option<&str>; 3] = [None, Some("tools/list"), Some("")];

const METHODS: [&str; 8] = [
    "",
    "initialize",
    "notifications/initialized",
    "initialized",
    "server/discover",
    "tools/list",
    "mcp.listTools",
    "no/such",
];

/// What the design says, in its order.
fn designed(hints: &Hints<'_>, meta_names_version: bool, method: &str) -> Era {
    let revision = hints.protocol_version.and_then(Revision::parse);
    let is_unknown_to_legacy = hints.protocol_version.is_some() && revision.is_none();
    // A handshake client may send the newer headers beside its version.
    let says_method = hints.method.is_some() && revision.is_none();
    if is_unknown_to_legacy || meta_names_version || says_method {
        Era::Modern
    } else if let Some(revision) = revision.or(hints.negotiated) {
        Era::Legacy(revision)
    } else if method == "initialize" {
        Era::Legacy(Revision::LATEST)
    } else {
        Era::Unversioned
    }
}

#[test]
fn every_combination_has_the_era_of_the_design() {
    let sessions: Vec<Option<Revision>> = std::iter::once(None)
        .chain(Revision::ALL.map(Some))
        .collect();
    let mut combinations = 0;
    for protocol_version in VERSIONS {
        for mcp_method in MCP_METHODS {
            for name in [None, Some("echo")] {
                for &negotiated in &sessions {
                    for has_headers in [false, true] {
                        let hints = Hints {
                            protocol_version,
                            method: mcp_method,
                            name,
                            negotiated,
                            has_headers,
                            ..Hints::default()
                        };
                        for (params, meta_names_version) in PARAMS {
                            let raw =
                                params.map(|text| RawValue::from_string(text.to_owned()).unwrap());
                            for method in METHODS {
                                let found = Era::decide(&hints, method, raw.as_deref());
                                let expected = designed(&hints, meta_names_version, method);
                                assert_eq!(found, expected, "{hints:?} {method:?} {params:?}");
                                combinations += 1;
                            }
                        }
                        // What the headers alone say is what they say with a body that adds nothing.
                        let by_headers = Era::decide(&hints, "tools/list", None);
                        assert_eq!(Era::from_headers(&hints), by_headers);
                    }
                }
            }
        }
    }
    assert_eq!(combinations, 9 * 3 * 2 * 5 * 2 * 12 * 8);
}

#[test]
fn only_what_the_revision_has_is_allowed() {
    for revision in Revision::ALL {
        let era = Era::Legacy(revision);
        assert_eq!(era.allows_batch(), revision <= Revision::V2025_03_26);
        for other in Revision::ALL {
            assert_eq!(era.knows(other), other <= revision);
        }
    }
    assert!(Era::Unversioned.allows_batch() && !Era::Modern.allows_batch());
}
