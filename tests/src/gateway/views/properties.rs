//! Properties: views × principals × dialects × methods.

use serde_json::{Value, json};

use super::super::env::{At, Gateway, bearer, shape};
use super::start;
use crate::harness::{Dialect, member_texts};

/// Tools that answer at once: their names, those in the view `support`, and whether that view has them.
const TOOLS: [(&str, &str, bool); 8] = [
    ("b__greet", "say_hello", true),
    ("b__echo", "b__echo", true),
    ("b__test_simple_text", "b__test_simple_text", true),
    ("b__test_error_handling", "fail", true),
    ("b__test_image_content", "b__test_image_content", false),
    ("b__database_query", "query", true),
    ("c__greet", "c__greet", false),
    ("c__echo", "c__echo", false),
];

const PRINCIPALS: [&str; 4] = ["reader", "oncall", "admin", "desk"];

/// A tool that is listed can be called, and one that is not is answered like a name that does not exist: in each
/// view and dialect, under each spelling, with each method, in a batch, and whatever a header says. A view has what
/// the role has without it, and less.
#[tokio::test]
async fn tool_can_be_called_in_a_view_exactly_if_it_is_listed_there() {
    let views = start().await;
    let mut kinds = [0, 0];
    for principal in PRINCIPALS {
        for dialect in Dialect::ALL {
            let everywhere = views.names(("", principal), dialect).await;
            for view in ["", "support", "other", "all"] {
                let at = (view, principal);
                let is_there = principal != "desk" || view == "support";
                if !is_there && !view.is_empty() {
                    let reply = views.ask(at, dialect, "tools/list", "", "").await;
                    assert_eq!(reply.status, 404, "{at:?} {reply:?}");
                    continue;
                }
                let listed = views.names(at, dialect).await;
                for (original, renamed, is_in_support) in TOOLS {
                    let (name, is_in) = match view {
                        "support" => (renamed, is_in_support),
                        "other" => (original, original.starts_with("c__")),
                        _ => (original, true),
                    };
                    let is_listed = listed.contains(&name.to_owned());
                    // The role of the reader allows the effect without the view only.
                    let is_allowed = match (principal, original) {
                        ("desk", _) => is_there,
                        ("admin", _) => true,
                        ("oncall", original) => original != "b__test_error_handling",
                        (_, _) => everywhere.contains(&original.to_owned()),
                    };
                    assert_eq!(is_listed, is_in && is_allowed, "{at:?} {dialect:?} {name}");
                    kinds[usize::from(is_listed)] += 1;
                    check(&views, at, dialect, (original, name), is_listed).await;
                }
            }
        }
    }
    assert!(kinds.iter().all(|count| *count > 60), "{kinds:?}");
}

async fn check(
    views: &Gateway,
    at: (&str, &str),
    dialect: Dialect,
    (original, name): (&str, &str),
    is_listed: bool,
) {
    let arguments = r#""arguments":{"name":"Ada","message":"x"}"#;
    let methods: &[&str] = match dialect {
        Dialect::Unversioned => &["tools/call", "mcp.callTool"],
        _ => &["tools/call"],
    };
    for method in methods {
        let call = async |header: &str, name: &str| {
            let members = format!(r#""name":{name:?},{arguments}"#);
            views.ask(at, dialect, method, header, &members).await
        };
        let unknown = shape(&call("b__none", "b__none").await, "b__none");
        let spellings = [
            original.to_owned(),
            original.replacen("__", ":", 1),
            original.replacen("__", ".", 1),
        ];
        let aliases = spellings
            .iter()
            .map(|spelling| (spelling.as_str(), is_listed && name == original));
        for (spelling, can_call) in aliases.chain([(name, is_listed)]) {
            let reply = call(spelling, spelling).await;
            let error = &reply.json()["error"];
            let is_unknown = error.is_object() && shape(&reply, spelling) == unknown;
            assert_eq!(
                is_unknown, !can_call,
                "{at:?} {dialect:?} {method} {spelling}: {reply:?}"
            );
        }
        if !is_listed {
            let reply = call("get_events", name).await;
            assert!(reply.json()["result"].is_null(), "{at:?} {name}: {reply:?}");
        }
    }
    if dialect == Dialect::Legacy("2025-03-26") {
        let members = format!(r#""name":{name:?},{arguments}"#);
        let one = dialect.request("1", "tools/call", &members);
        let (bearer, path) = (bearer(at.1), At::from(at).path());
        let mut headers = dialect.headers();
        headers.push(("authorization", &bearer));
        let reply = views.post_to(&path, &headers, format!("[{one}]")).await;
        let is_error = reply.json()[0]["error"].is_object();
        assert_eq!(is_error, !is_listed, "{at:?} batch {name}: {reply:?}");
    }
}

/// Resources, templates, prompts and completion: of the backends of the view, by its rules.
#[tokio::test]
async fn resources_and_prompts_are_those_of_the_view() {
    let views = start().await;
    for dialect in Dialect::ALL {
        let list = async |view: &str, list: &str| -> Value {
            let method = format!("{list}/list");
            let reply = views.ask((view, "admin"), dialect, &method, "", "").await;
            reply.json()["result"][list].take()
        };
        for (view, uri, is_there) in [
            ("", "test://static-binary", true),
            ("support", "test://static-text", true),
            ("support", "test://static-binary", false),
        ] {
            let listed = list(view, "resources").await;
            let uris = member_texts(&listed, "uri");
            assert_eq!(uris.contains(&uri), is_there, "{view}: {uris:?}");
        }
        // Both backends have the same URIs; the configuration gives them to the first one.
        assert_eq!(list("other", "resources").await, json!([]));
        let prompts = async |view: &str| list(view, "prompts").await.as_array().unwrap().len();
        let (all, other) = (prompts("").await, prompts("other").await);
        assert_eq!(all, 2 * other, "{dialect:?}");
        // Its rules allow `b__test_*`.
        assert_eq!(prompts("support").await, other - 1, "{dialect:?}");
        for (view, item, is_there) in [
            ("", "test://static-binary", true),
            ("support", "test://static-text", true),
            ("support", "test://static-binary", false),
            ("support", "test://template/7/data", true),
            ("other", "test://template/7/data", false),
            ("support", "b__test_simple_prompt", true),
            ("support", "c__test_simple_prompt", false),
            ("other", "b__test_simple_prompt", false),
        ] {
            let (method, members) = match item.starts_with("test://") {
                true => ("resources/read", format!(r#""uri":{item:?}"#)),
                false => (
                    "prompts/get",
                    format!(r#""name":{item:?},"arguments":{{}}"#),
                ),
            };
            let reply = views.ask((view, "admin"), dialect, method, item, &members);
            let result = reply.await.json()["result"].take();
            assert_eq!(result.is_object(), is_there, "{view}: {result}");
            assert!(is_there || result.is_null(), "{view}: {result}");
        }
    }
}
