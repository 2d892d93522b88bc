//! Headers and body of a modern request must match, for any value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_core::server::Server;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{answer, for_all};
use crate::harness::in_memory;

/// The error code of a call of the tool `body` with these headers.
fn code(server: &Server, body: &str, method: Option<&str>, header: Option<&str>) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": body, "arguments": {}, "_meta": meta});
    let frame = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let fields = [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", method),
        ("mcp-name", header),
    ];
    // No client can send any other value.
    let headers = HeaderMap::from_iter(fields.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_bytes(value?.as_bytes()).ok()?;
        Some((HeaderName::from_static(name), value))
    }));
    let answer = answer(server, frame.to_string().as_bytes(), Some(&headers));
    let body: Value = serde_json::from_slice(&answer.body.unwrap()).unwrap();
    body["error"]["code"].clone()
}

/// Usual and hostile names.
fn name() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-z_-]{0,12}",
        "[ -~]{0,12}",
        any::<String>(),
        "=\\?base64\\?[A-Za-z0-9+/=]{0,8}\\?=",
        "[ \t]{0,2}[a-z]{0,3}[ \t]{0,2}",
    ]
    // No tool has such a name, so a call that passes the check fails later.
    .prop_map(|name| format!("{name}."))
    .boxed()
}

fn coded(name: &str) -> String {
    format!("=?base64?{}?=", STANDARD.encode(name))
}

/// Whether a name may be in a header without encoding.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && name.trim() == name
}

#[test]
fn equal_names_pass() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    for_all(300, &name(), |name| {
        let method = Some("tools/call");
        prop_assert_eq!(code(&server, &name, method, Some(&coded(&name))), -32602);
        if is_plain(&name) {
            prop_assert_eq!(code(&server, &name, method, Some(&name)), -32602);
        }
        Ok(())
    });
}

#[test]
fn different_names_are_refused() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    for_all(300, &(name(), name()), |(body, other)| {
        prop_assume!(body != other);
        let method = Some("tools/call");
        prop_assert_eq!(code(&server, &body, method, Some(&coded(&other))), -32020);
        if other.trim() != body {
            prop_assert_eq!(code(&server, &body, method, Some(&other)), -32020);
        }
        prop_assert_eq!(code(&server, &body, method, None), -32020);
        for method in [Some(&*other), None] {
            let found = code(&server, &body, method, Some(&coded(&body)));
            prop_assert_eq!(found, -32020);
        }
        Ok(())
    });
}
