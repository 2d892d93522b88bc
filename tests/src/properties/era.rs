//! The era decision, over every combination of its inputs.

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

/// Parameters (`""` for none) whose `_meta` names no version.
const OTHER_PARAMS: [&str; 10] = [
    "",
    "{}",
    "[]",
    r#"{"_meta":{}}"#,
    r#"{"_meta":null}"#,
    r#"{"_meta":"io.modelcontextprotocol/protocolVersion"}"#,
    r#"{"_meta":{"progressToken":"io.modelcontextprotocol/protocolVersion"}}"#,
    r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#,
    r#"{"a":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"[{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}]"#,
];

/// Parameters whose `_meta` names a version.
const MODERN_PARAMS: [&str; 2] = [
    r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
    r#"{"a":1,"_meta" : {"x":[],"io.modelcontextprotocol\/protocolVersion":7}}"#,
];

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

/// The expected era. `Mcp-Method` and `Mcp-Name` decide nothing.
fn expected(hints: &Hints<'_>, meta_names_version: bool, method: &str) -> Era {
    let revision = hints.protocol_version.and_then(Revision::parse);
    let is_unknown_to_legacy = hints.protocol_version.is_some() && revision.is_none();
    if is_unknown_to_legacy || meta_names_version {
        Era::Modern
    } else if let Some(revision) = revision.or(hints.negotiated) {
        Era::Legacy(revision)
    } else if method == "initialize" {
        Era::Legacy(Revision::LATEST)
    } else {
        Era::Unversioned
    }
}

#[track_caller]
fn check(hints: &Hints<'_>) {
    let others = OTHER_PARAMS.map(|params| (params, false));
    let modern = MODERN_PARAMS.map(|params| (params, true));
    for (params, names_version) in others.into_iter().chain(modern) {
        let raw = RawValue::from_string(params.to_owned()).ok();
        for method in METHODS {
            let found = Era::decide(hints, method, raw.as_deref());
            let expected = expected(hints, names_version, method);
            assert_eq!(found, expected, "{hints:?} {method:?} {params}");
        }
    }
    // The headers alone decide like a body without a version.
    let by_headers = Era::decide(hints, "tools/list", None);
    assert_eq!(Era::from_headers(hints), by_headers);
}

#[test]
fn every_combination_has_the_expected_era() {
    let negotiated = Revision::ALL.map(Some).into_iter().chain([None]);
    for (protocol_version, negotiated) in VERSIONS
        .into_iter()
        .flat_map(|version| negotiated.clone().map(move |it| (version, it)))
    {
        for mcp_method in [None, Some("tools/list"), Some("")] {
            for (name, has_headers) in [
                (None, false),
                (None, true),
                (Some("echo"), false),
                (Some("echo"), true),
            ] {
                check(&Hints {
                    protocol_version,
                    method: mcp_method,
                    name,
                    negotiated,
                    has_headers,
                    ..Hints::default()
                });
            }
        }
    }
}

#[test]
fn eras_know_older_revisions() {
    for revision in Revision::ALL {
        let era = Era::Legacy(revision);
        assert_eq!(era.allows_batch(), revision <= Revision::V2025_03_26);
        for other in Revision::ALL {
            assert_eq!(era.knows(other), other <= revision);
        }
    }
    assert!(Era::Unversioned.allows_batch() && !Era::Modern.allows_batch());
}
