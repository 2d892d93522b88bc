//! Properties: views × principals × dialects × methods.

use serde_json::Value;

use super::{Views, shape};
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
    let views = Views::start().await;
    let mut kinds = [0, 0];
    for principal in PRINCIPALS {
        for dialect in Dialect::ALL {
            let everywhere = views.names(("", principal), dialect).await;
            for view in ["", "support", "other", "all"] {
                let at = (view, principal);
                let is_there = principal != "desk" || view == "support";
                if !is_there && !view.is_empty() {
                    let reply = views.request(at, dialect, "tools/list", "", "").await;
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
    views: &Views,
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
            views.request(at, dialect, method, header, &members).await
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
        let one = dialect.request(
            "1",
            "tools/call",
            &format!(r#""name":{name:?},{arguments}"#),
        );
        let bearer = super::bearer(at.1);
        let mut headers = dialect.headers();
        headers.push(("authorization", &bearer));
        let reply = views
            .0
            .post_to(&super::path(at.0), &headers, format!("[{one}]"))
            .await;
        let is_error = reply.json()[0]["error"].is_object();
        assert_eq!(is_error, !is_listed, "{at:?} batch {name}: {reply:?}");
    }
}

/// Resources, templates, prompts and completion: of the backends of the view, by its rules.
#[tokio::test]
async fn resources_and_prompts_are_those_of_the_view() {
    let views = Views::start().await;
    for dialect in Dialect::ALL {
        let uris = async |view: &str| {
            let at = (view, "admin");
            let listed = views.list(at, dialect, "resources/list", "resources").await;
            let uris = member_texts(&listed, "uri").into_iter();
            uris.map(str::to_owned).collect::<Vec<_>>()
        };
        let (all, own, other) = (uris("").await, uris("support").await, uris("other").await);
        assert!(all.contains(&"test://static-binary".to_owned()), "{all:?}");
        assert!(own.contains(&"test://static-text".to_owned()), "{own:?}");
        assert!(!own.contains(&"test://static-binary".to_owned()), "{own:?}");
        // Both backends have the same URIs; the configuration gives them to the first one.
        assert!(other.is_empty(), "{other:?}");
        let read = async |view: &str, uri: &str| {
            let members = format!(r#""uri":{uri:?}"#);
            let at = (view, "admin");
            let reply = views.request(at, dialect, "resources/read", uri, &members);
            reply.await.json()["result"].is_object()
        };
        assert!(read("", "test://static-binary").await);
        assert!(read("support", "test://static-text").await);
        assert!(!read("support", "test://static-binary").await);
        assert!(read("support", "test://template/7/data").await);
        assert!(!read("other", "test://template/7/data").await);
        let prompts = async |view: &str| {
            let at = (view, "admin");
            let listed = views.list(at, dialect, "prompts/list", "prompts").await;
            member_texts(&listed, "name").len()
        };
        let (all, other) = (prompts("").await, prompts("other").await);
        assert_eq!(all, 2 * other, "{dialect:?}");
        // Its rules allow `b__test_*`.
        assert_eq!(prompts("support").await, other - 1, "{dialect:?}");
        let get = async |view: &str, name: &str| -> Value {
            let members = format!(r#""name":{name:?},"arguments":{{}}"#);
            let at = (view, "admin");
            let reply = views.request(at, dialect, "prompts/get", name, &members);
            reply.await.json()["result"].clone()
        };
        assert!(get("support", "b__test_simple_prompt").await.is_object());
        assert!(get("support", "c__test_simple_prompt").await.is_null());
        assert!(get("other", "b__test_simple_prompt").await.is_null());
    }
}
