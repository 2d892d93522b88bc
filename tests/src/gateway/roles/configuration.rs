//! Roles and the rest of the gateway: events, instructions, changes of the file, and `explain`.

use serde_json::{Value, json};

use super::super::env::Gateway;
use super::super::truth::Answers;
use super::{PRINCIPALS, ROLES, TOKENS, start, start_with};
use crate::harness::{Dialect, assert_contains, assert_lacks, eventually};

/// Each sees its own events; a denied request is recorded with its role and the line of the rule.
#[tokio::test]
async fn events_are_of_the_caller_unless_its_role_may_see_all() {
    let roles = start("").await;
    roles
        .told("reader", "b__greet", json!({"name": "Ada"}))
        .await;
    let failing = "b__test_error_handling";
    roles.told("oncall", failing, json!({})).await;
    let all = eventually("the denied call", async || {
        let found = roles.facts_by("admin").await;
        let has_denied = found.iter().any(|event| event["outcome"] == "denied");
        has_denied.then_some(found)
    })
    .await;
    let find = |name: &str, value: &str| {
        let found = all.iter().find(|event| event[name] == value);
        found.unwrap_or_else(|| panic!("no {value}: {all:?}"))
    };
    let denied = find("outcome", "denied");
    assert_eq!(denied["item"], failing, "{denied}");
    assert_contains(&denied["denial"], "role oncall: denied by line ");
    assert_contains(
        &denied["denial"],
        &format!("roles.oncall.deny: {failing:?}"),
    );
    let allowed = find("tool_name", "b__greet");
    assert_contains(&allowed["allowed_by"], "role reader: allowed by line ");
    assert_contains(&allowed["allowed_by"], r#"roles.reader.allow: "b__greet""#);
    assert_eq!(allowed["address"], "127.0.0.1");
    for principal in ["reader", "oncall", "admin"] {
        find("principal", principal);
    }
    // Its own events do not tell a caller that there is such a tool.
    let missing = "b__missing";
    roles.told("oncall", missing, json!({})).await;
    let [denied, unknown] = eventually("both events", async || {
        let own = roles.facts_by("oncall").await;
        let found = [failing, missing].map(|item| {
            let event = own.iter().find(|event| event["item"] == item)?;
            let event = event.to_string().replace(item, "NAME");
            let mut event: Value = serde_json::from_str(&event).unwrap();
            for size in ["duration_ms", "request_bytes", "response_bytes"] {
                event[size].take();
            }
            Some(event)
        });
        let [Some(denied), Some(unknown)] = found else {
            return None;
        };
        Some([denied, unknown])
    })
    .await;
    assert_has!(denied, {"outcome": "failed", "denial": null});
    assert_eq!(denied, unknown);
    for principal in ["reader", "oncall"] {
        let mut found = roles.facts_by(principal).await;
        assert!(found.iter().all(|event| event["allowed_by"].is_null()));
        found.retain(|event| event["principal"] != principal);
        assert!(found.is_empty(), "{principal}: {found:?}");
    }
    let status = roles.told("reader", "gateway_status", json!({})).await;
    assert_lacks(&status, "backends");
}

/// A file that is wrong, or cut off, as by a full disk, is refused: with it everybody could do more. The roles stay.
#[tokio::test]
async fn roles_follow_the_file_but_one_that_is_cut_off_takes_no_rule_away() {
    let more = "pins = \"hold\"\n[approvals]\napprove = [\"b__echo\"]\n";
    let roles = start(more).await;
    let config = roles.configuration();
    let all_names = async || {
        let mut all = Vec::new();
        for principal in PRINCIPALS {
            all.push(roles.names(principal, Dialect::Modern).await);
        }
        all
    };
    let refused = async || {
        let query = json!({"event_type": "gateway.config_changed", "status": "failure"});
        let found = roles.own_by("admin", "get_events", query).await;
        let errors = found.as_array().unwrap().iter();
        let errors = errors.map(|event| event["metadata"]["error"].as_str().unwrap().to_owned());
        errors.collect::<Vec<String>>()
    };
    let before = all_names().await;
    let cut = |at: &str| config[..config.find(at).unwrap()].to_owned();
    let of_oncall = ": roles.oncall.deny: is in the file before and not in this one, as if it were cut off. If that is \
        meant, write `deny = []`";
    let rows = [
        (String::new(), ": is empty"),
        ("# gateway\n\n".to_owned(), ": is empty"),
        (cut("[roles.reader]"), ": roles: is in the file before"),
        (
            config.replace("deny = [\"b__test_error_handling\"]\n", ""),
            of_oncall,
        ),
        (
            config.replace("= \"reader\"", "= \"raeder\""),
            "did you mean",
        ),
    ];
    for (number, (text, expected)) in rows.into_iter().enumerate() {
        roles.configure(&text);
        let errors = eventually("the refusal", async || {
            Some(refused().await).filter(|errors| errors.len() > number)
        })
        .await;
        assert_eq!(errors.len(), number + 1, "{errors:?}");
        let is_told = errors.iter().any(|error| error.contains(expected));
        assert!(is_told, "{expected}: {errors:?}");
        assert_eq!(all_names().await, before, "{expected}");
    }
    // What the file says is taken away, and given.
    let changed = config.replace("deny = [\"b__test_error_handling\"]", "deny = []");
    roles.configure(&changed.replace("\"b__greet\",", "\"b__echo\","));
    roles.until_sees("oncall", "b__test_error_handling").await;
    let names = roles.names("reader", Dialect::Modern).await.join(" ");
    assert!(
        names.contains("b__echo") && !names.contains("b__greet"),
        "{names}"
    );
    roles.configure("roles = {}\npins = \"hold\"\napprovals = {}\n[backends.b]\nFIXTURE\n");
    roles.until_sees("guest", "b__test_error_handling").await;
}

/// Instructions, and the reason why a backend is down, are for those who may use it.
#[tokio::test]
async fn instructions_and_reasons_are_only_of_backends_that_the_role_uses() {
    let answers = Answers {
        instructions: "Use c well.".to_owned(),
        ..Answers::new()
    };
    let other = answers.serve().await;
    let config = format!(
        "[backends.b]\nFIXTURE\n[backends.c]\nurl = {:?}\nprotocol = \"2025-11-25\"\n[backends.gone]\ncommand = [\"/nonexistent\"]\n{ROLES}",
        other.url
    );
    let roles = Gateway::guarded(&TOKENS, &config, &[]).await;
    roles.until_sees("admin", "c__work").await;
    let why = async |principal| roles.told(principal, "gone__anything", json!({})).await;
    assert_contains(&why("admin").await, "backend gone");
    assert_lacks(&why("oncall").await, "backend gone");
    let members = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    for (principal, sees) in [("admin", true), ("oncall", false), ("guest", false)] {
        let dialect = Dialect::Unversioned;
        let shown = roles.ask(principal, dialect, "initialize", "", members);
        let shown = shown.await.body;
        assert_eq!(shown.contains("Use c well."), sees, "{principal} {shown}");
    }
}

/// The operator's texts and effect of a tool take the place of its own, and roles go by that effect.
#[tokio::test]
async fn texts_and_effect_of_a_tool_can_be_set() {
    let tools =
        "[backends.b.tools.greet]\ndescription = \"Says hello.\"\neffect = \"destructive\"\n";
    let roles = "[roles.reads]\nallow = [\"b__greet\", \"b__echo\"]\neffects = [\"reads\"]\n";
    let roles = start_with("", &format!("{tools}{roles}"), &[("guest", "reads")]).await;
    for dialect in Dialect::ALL {
        let listed = roles.ask("admin", dialect, "tools/list", "", "");
        let listed = listed.await.json();
        let mut tools = listed["result"]["tools"].as_array().unwrap().iter();
        let greet = tools.find(|tool| tool["name"] == "b__greet").unwrap();
        assert_eq!(greet["description"], "Says hello.", "{dialect:?}");
        if dialect.supports("2025-03-26") {
            assert_has!(greet["annotations"], {"readOnlyHint": false, "destructiveHint": true});
        }
    }
    let names = roles.names("guest", Dialect::Modern).await;
    assert!(!names.contains(&"b__greet".to_owned()), "{names:?}");
}
