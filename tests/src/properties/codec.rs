//! Properties of the codec: round trips, exact bytes, a response to any input.

use mcp_core::jsonrpc::{self, Id, Json, Message, Response};
use mcp_core::server::Server;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::value::RawValue;

use super::text::{id, space, string, structure, value};
use super::{answer, for_all};
use crate::harness::in_memory;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// A message with its members in any order, with any white space and unknown members.
fn message(members: Vec<(String, String)>) -> impl Strategy<Value = String> {
    let unknown = ("\"x[a-z]{1,5}\"", value()).prop_map(|member| vec![member]);
    let unknown = prop_oneof![Just(Vec::new()), unknown];
    (unknown, vec(space(), 6)).prop_flat_map(move |(unknown, spaces)| {
        let members = [members.clone(), unknown].concat();
        Just(members).prop_shuffle().prop_map(move |members| {
            let [a, b, c, d, e, f] = &spaces[..] else {
                unreachable!()
            };
            let members = members.iter();
            let members = members.map(|(key, value)| format!("{b}{key}{c}:{d}{value}{e}"));
            format!("{a}{{{}}}{f}", members.collect::<Vec<_>>().join(","))
        })
    })
}

fn members(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let quoted = |(key, value): &(&str, &str)| (format!("\"{key}\""), (*value).to_owned());
    list.iter().map(quoted).collect()
}

fn version() -> (&'static str, &'static str) {
    ("jsonrpc", "\"2.0\"")
}

#[test]
fn decoded_request_is_the_encoded_one() {
    let written = (id(), string(), proptest::option::of(structure())).prop_flat_map(|parts| {
        let (id, method, params) = &parts;
        let mut list = vec![version(), ("id", id), ("method", method)];
        if let Some(params) = params {
            list.push(("params", params));
        }
        (message(members(&list)), Just(parts))
    });
    for_all(500, &written, |(line, (id, method, params))| {
        // A method must be text, without lone surrogates.
        let Ok(method) = serde_json::from_str::<String>(&method) else {
            prop_assert!(jsonrpc::decode(line.as_bytes()).is_err());
            return Ok(());
        };
        let Ok(Message::Request(request)) = jsonrpc::decode(line.as_bytes()) else {
            return Err(TestCaseError::fail("not a request"));
        };
        prop_assert_eq!(request.id.as_json(), id);
        prop_assert_eq!(&*request.method, method);
        prop_assert_eq!(request.params.map(RawValue::get), params.as_deref());
        Ok(())
    });
}

#[test]
fn encoded_response_is_one_line_and_decodes_to_itself() {
    // Results with several lines become one line elsewhere.
    let single = value().prop_map(|value| value.replace(['\n', '\r'], " "));
    for_all(500, &(id(), single), |(id, result)| {
        let id = raw(&id);
        let id = Id::new(&id).unwrap();
        let (mut line, outcome) = (Vec::new(), Ok(Json::from(result.clone())));
        Response {
            id: Some(id),
            outcome,
        }
        .write(&mut line);
        prop_assert!(!line.contains(&b'\n'));
        let Ok(Message::Response(read)) = jsonrpc::decode(&line) else {
            return Err(TestCaseError::fail("not a response"));
        };
        prop_assert_eq!(read.id, Some(id));
        prop_assert_eq!(read.outcome.unwrap().get(), result.trim());
        Ok(())
    });
}

/// Checks that the response to `frame` is absent, or JSON-RPC in one line.
fn check_response(server: &Server, frame: &[u8]) -> TestCaseResult {
    let Some(line) = answer(server, frame).into_line() else {
        return Ok(());
    };
    prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    let text = String::from_utf8(line).unwrap();
    let raw: &RawValue = serde_json::from_str(&text).unwrap();
    let items: Vec<&RawValue> = match raw.get().starts_with('[') {
        true => serde_json::from_str(raw.get()).unwrap(),
        false => vec![raw],
    };
    for item in items {
        let item = item.get();
        let start = r#"{"jsonrpc":"2.0","id":"#;
        prop_assert!(item.starts_with(start), "{}", item);
        let read = jsonrpc::decode(item.as_bytes());
        let is_response = matches!(read, Ok(Message::Response(_)));
        prop_assert!(is_response || item.contains("\"id\":null"));
    }
    Ok(())
}

#[test]
fn any_bytes_get_a_valid_response() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    for_all(1000, &vec(any::<u8>(), 0..200), |bytes| {
        let _ = jsonrpc::decode(&bytes);
        check_response(&server, &bytes)
    });
}

/// Known methods.
const METHODS: &str = "initialize ping tools/list tools/call mcp.listTools mcp.callTool mcp.getServerInfo \
    server/discover resources/list resources/read resources/templates/list resources/subscribe \
    prompts/list prompts/get completion/complete logging/setLevel notifications/cancelled";

/// Members that methods use.
const KEYS: &str = "name arguments cursor uri _meta protocolVersion capabilities requestId level ref argument \
    io.modelcontextprotocol/protocolVersion";

#[test]
fn any_request_gets_a_valid_response() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    let known = r#""echo" "2025-06-18" "2026-07-28" {} "info""#;
    let known: Vec<String> = known.split(' ').map(str::to_owned).collect();
    let words = prop_oneof![value(), proptest::sample::select(known)];
    let member = (
        proptest::sample::select(KEYS.split(' ').collect::<Vec<_>>()),
        words,
    )
        .prop_map(|(key, value)| format!("\"{key}\":{value}"));
    let object = vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")));
    let params = prop_oneof![
        structure(),
        object.clone(),
        object.prop_map(|meta| format!(r#"{{"name":"echo","_meta":{meta}}}"#)),
    ];
    let method = proptest::sample::select(METHODS.split(' ').collect::<Vec<_>>());
    for_all(1000, &(id(), method, params), |(id, method, params)| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        check_response(&server, text.as_bytes())
    });
}

#[test]
fn damaged_request_gets_a_valid_response() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    let damage = (any::<prop::sample::Index>(), any::<u8>(), 0..3_usize);
    let whole = r#"{"jsonrpc":"2.0","id":"ä1","method":"tools/call","params":{"name":"echo","arguments":{"value":[1e5,{"a":null}]}}}"#;
    for_all(1000, &vec(damage, 1..4), |damages| {
        let mut bytes = whole.as_bytes().to_vec();
        for (at, byte, kind) in damages {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        check_response(&server, &bytes)
    });
}

#[test]
fn echoed_values_keep_their_bytes() {
    let server = in_memory(std::iter::once("mcp-conformance"));
    for_all(300, &value(), |value| {
        let frame = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"mcp.callTool","params":{{"name":"echo","arguments":{{"value":{value}}}}}}}"#
        );
        let body = answer(&server, frame.as_bytes()).body.unwrap();
        let body = String::from_utf8(body).unwrap();
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"value":{value}}}}}"#);
        prop_assert_eq!(body, expected);
        Ok(())
    });
}
