//! Properties of roles: principals × names × dialects × methods, with random roles.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::super::env::{Folder, Gateway, stdio_fixture};
use super::{Roles, shape};
use crate::harness::{Dialect, Reply, wait_until};

/// Tools that answer at once.
const NAMES: [&str; 6] = [
    "b__greet",
    "b__echo",
    "b__test_simple_text",
    "b__test_error_handling",
    "b__test_image_content",
    "b__test_audio_content",
];

/// Each has a role of its own.
const PRINCIPALS: [&str; 4] = ["reader", "oncall", "admin", "guest"];

const PATTERNS: [&str; 9] = [
    "b__greet",
    "b__e*",
    "b__test_*",
    "*_content",
    "b__?reet",
    "*text*",
    "b__*",
    "*",
    "b__test_error_handling",
];

/// The lists `allow` and `deny` of each role.
fn roles() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let role = (
        subsequence(PATTERNS.to_vec(), 1..=3),
        prop::collection::vec(select(&PATTERNS[..]), 0..=2),
    );
    let roles = prop::collection::vec(role, 4);
    let roles = roles
        .new_tree(&mut TestRunner::deterministic())
        .unwrap()
        .current();
    let without_contradictions = roles.into_iter().map(|(allow, mut deny)| {
        deny.retain(|pattern| !allow.contains(pattern));
        (allow, deny)
    });
    without_contradictions.collect()
}

/// The tokens of the other tests, each with a role of its own.
async fn start() -> Roles {
    let folder = Folder::new();
    let tokens = folder.write("tokens", super::TOKENS);
    let mut config = format!("[backends.b]\n{}\n", stdio_fixture());
    let mut principals = "[principals]\n".to_owned();
    for (principal, (allow, deny)) in PRINCIPALS.iter().zip(roles()) {
        config.push_str(&format!(
            "[roles.{principal}]\nallow = {allow:?}\ndeny = {deny:?}\n"
        ));
        config.push_str("own = [\"gateway_status\"]\n");
        principals.push_str(&format!("{principal} = {principal:?}\n"));
    }
    config.push_str(&principals);
    let roles = Roles(Gateway::start(folder, &config, &["--token-file", &tokens]).await);
    wait_until("the tools", async || {
        let status = roles.call("reader", "gateway_status", json!({})).await;
        status.contains(r#"\"status\":\"running\""#) && !status.contains(r#"\"tools\":0"#)
    })
    .await;
    roles
}

/// A tool that is listed can be called, and one that is not is answered like a name that does not exist: in each dialect, under
/// each spelling, with each method, and whatever a header says.
#[tokio::test]
async fn tool_can_be_called_exactly_if_it_is_listed() {
    let roles = start().await;
    let mut kinds = [0, 0];
    for principal in PRINCIPALS {
        for dialect in Dialect::ALL {
            let listed = roles.names(principal, dialect).await;
            let first = NAMES
                .into_iter()
                .find(|name| listed.contains(&(*name).to_owned()));
            let call = async |method: &str, header: &str, name: &str| -> Reply {
                let members =
                    format!(r#""name":{name:?},"arguments":{{"name":"Ada","message":"x"}}"#);
                roles
                    .request(principal, dialect, method, header, &members)
                    .await
            };
            let methods: &[&str] = match dialect {
                Dialect::Unversioned => &["tools/call", "mcp.callTool"],
                _ => &["tools/call"],
            };
            for method in methods {
                let unknown = shape(&call(method, "b__none", "b__none").await, "b__none");
                for name in NAMES {
                    let is_listed = listed.contains(&name.to_owned());
                    kinds[usize::from(is_listed)] += 1;
                    for spelling in [
                        name.to_owned(),
                        name.replacen("__", ":", 1),
                        name.replacen("__", ".", 1),
                    ] {
                        let reply = call(method, &spelling, &spelling).await;
                        let what =
                            format!("{principal} {dialect:?} {method} {spelling}: {reply:?}");
                        let error = &reply.json()["error"];
                        let is_unknown = error.is_object() && shape(&reply, &spelling) == unknown;
                        assert_eq!(is_unknown, !is_listed, "{what}");
                    }
                    // The name in the header is that of a tool which it may call.
                    if let (false, Some(first)) = (is_listed, first) {
                        let reply = call(method, first, name).await;
                        assert!(
                            reply.json()["result"].is_null(),
                            "{principal} {dialect:?} {name}: {reply:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
}
