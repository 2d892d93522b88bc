//! Roles and the rest of the gateway: events, instructions, changes of the file, and `explain`.

use serde_json::{Value, json};

use super::super::env::{Folder, Gateway, stdio_fixture, text};
use super::{PRINCIPALS, ROLES, Roles, TOKENS};
use crate::harness::{
    Dialect, FakeService, Response, assert_contains, assert_lacks, binary, eventually, wait_until,
};

/// Each sees its own events; a denied request is recorded with its role and the line of the rule.
#[tokio::test]
async fn events_are_of_the_caller_unless_its_role_may_see_all() {
    let roles = Roles::start("").await;
    roles
        .call("reader", "b__greet", json!({"name": "Ada"}))
        .await;
    roles
        .call("oncall", "b__test_error_handling", json!({}))
        .await;
    let events = async |principal: &str| {
        let answer = roles
            .call(principal, "get_events", json!({"limit": 1000}))
            .await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let found: Value = serde_json::from_str(text(&answer["result"])).unwrap();
        let found = found.as_array().unwrap().clone();
        found
            .into_iter()
            .map(|event| event["metadata"].clone())
            .collect::<Vec<Value>>()
    };
    let denied = eventually("the denied call", async || {
        let found = events("admin").await;
        found.into_iter().find(|event| event["outcome"] == "denied")
    })
    .await;
    assert_eq!(denied["item"], "b__test_error_handling", "{denied}");
    assert_contains(&denied["denial"], "role oncall: denied by line ");
    assert_contains(
        &denied["denial"],
        r#"roles.oncall.deny: "b__test_error_handling""#,
    );
    let allowed = events("admin").await;
    let allowed = allowed
        .iter()
        .find(|event| event["tool_name"] == "b__greet");
    let allowed = allowed.unwrap();
    assert_contains(&allowed["allowed_by"], "role reader: allowed by line ");
    assert_contains(&allowed["allowed_by"], r#"roles.reader.allow: "b__greet""#);
    assert_eq!(allowed["address"], "127.0.0.1");
    // Its own events do not tell a caller that there is such a tool.
    let own = events("oncall").await;
    let own = own
        .iter()
        .find(|event| event["item"] == "b__test_error_handling");
    assert_has!(own.unwrap(), {"outcome": "failed"});
    assert_eq!(own.unwrap()["denial"], Value::Null);
    for principal in ["reader", "oncall"] {
        let mut found = events(principal).await;
        assert!(found.iter().all(|event| event["allowed_by"].is_null()));
        found.retain(|event| event["principal"] != principal);
        assert!(found.is_empty(), "{principal}: {found:?}");
    }
    let all: Vec<Value> = events("admin").await;
    for principal in ["reader", "oncall", "admin"] {
        assert!(
            all.iter().any(|event| event["principal"] == principal),
            "{principal}"
        );
    }
    let status = roles.call("reader", "gateway_status", json!({})).await;
    assert_lacks(&status, "backends");
}

/// A reload changes the lists at once, tells the clients, and a broken one keeps the roles.
#[tokio::test]
async fn roles_follow_the_file() {
    let roles = Roles::start("").await;
    let file = roles.0.folder.path("gateway.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let is_listed = async |name: &str| {
        roles
            .names("reader", Dialect::Modern)
            .await
            .contains(&name.to_owned())
    };
    assert!(!is_listed("b__echo").await);
    roles.0.folder.write(
        "gateway.toml",
        &config.replace("\"b__greet\",", "\"b__echo\","),
    );
    wait_until("the changed role", async || is_listed("b__echo").await).await;
    assert!(!is_listed("b__greet").await);
    let broken = config.replace("reader = \"reader\"", "reader = \"raeder\"");
    roles.0.folder.write("gateway.toml", &broken);
    roles.0.wait_for_log("did you mean").await;
    assert!(is_listed("b__echo").await);
}

/// A file that is cut off, as by a full disk, is refused: with it everybody could do more. The roles stay.
#[tokio::test]
async fn file_that_is_cut_off_takes_no_rule_away() {
    let more = "pins = \"hold\"\n[approvals]\napprove = [\"b__echo\"]\n";
    let roles = Roles::start(more).await;
    let config = std::fs::read_to_string(roles.0.folder.path("gateway.toml")).unwrap();
    let all_names = async || {
        let mut all = Vec::new();
        for principal in PRINCIPALS {
            all.push(roles.names(principal, Dialect::Modern).await);
        }
        all
    };
    let refused = async || {
        let query = json!({"event_type": "gateway.config_changed", "status": "failure"});
        let answer = roles.call("admin", "get_events", query).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let found: Value = serde_json::from_str(text(&answer["result"])).unwrap();
        let errors = found.as_array().unwrap().iter();
        let errors = errors.map(|event| event["metadata"]["error"].as_str().unwrap().to_owned());
        errors.collect::<Vec<String>>()
    };
    let before = all_names().await;
    let cut = |at: &str| config[..config.find(at).unwrap()].to_owned();
    let rows = [
        (String::new(), ": is empty"),
        ("# gateway\n\n".to_owned(), ": is empty"),
        (cut("[approvals]"), ": backends: is in the file before"),
        (cut("[roles.reader]"), ": roles: is in the file before"),
        (
            cut("deny = [\"test://template/7*\"]"),
            ": principals: is in the file before",
        ),
        (cut("[principals]"), ": principals: is in the file before"),
        (
            config.replace("deny = [\"b__test_error_handling\"]\n", ""),
            ": roles.oncall.deny: is in the file before and not in this one, as if it were cut off. If that is meant, \
             write `deny = []`",
        ),
        (
            config.replace("approve = [\"b__echo\"]\n", ""),
            ": approvals.approve: is in the file before",
        ),
    ];
    for (number, (text, expected)) in rows.into_iter().enumerate() {
        roles.0.folder.write("gateway.toml", &text);
        let errors = eventually("the refusal", async || {
            Some(refused().await).filter(|errors| errors.len() > number)
        })
        .await;
        assert_eq!(errors.len(), number + 1, "{errors:?}");
        assert!(
            errors.iter().any(|error| error.contains(expected)),
            "{expected}: {errors:?}"
        );
        assert_eq!(all_names().await, before, "{expected}");
    }
    // What the file says is taken away.
    let without = config.replace("deny = [\"b__test_error_handling\"]", "deny = []");
    roles.0.folder.write("gateway.toml", &without);
    wait_until("the rule to be gone", async || {
        let names = roles.names("oncall", Dialect::Modern).await;
        names.contains(&"b__test_error_handling".to_owned())
    })
    .await;
    let open = format!(
        "roles = {{}}\npins = \"hold\"\napprovals = {{}}\n[backends.b]\n{}\n",
        stdio_fixture()
    );
    roles.0.folder.write("gateway.toml", &open);
    wait_until("everything to be open", async || {
        let names = roles.names("guest", Dialect::Modern).await;
        names.contains(&"b__test_error_handling".to_owned())
    })
    .await;
}

/// Instructions, and the reason why a backend is down, are for those who may use it.
#[tokio::test]
async fn instructions_and_reasons_are_only_of_backends_that_the_role_uses() {
    let folder = Folder::new();
    let tokens = folder.write("tokens", TOKENS);
    let other = FakeService::start(|request| {
        let request: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"}, "instructions": "Use c well."})
            }
            Some("tools/list") => {
                json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
            }
            _ => return Response::Http(405, "text/plain", "".into()),
        };
        Response::json(
            200,
            &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        )
    })
    .await;
    let backends = format!(
        "[backends.b]\n{}\n[backends.c]\nurl = {:?}\nprotocol = \"2025-11-25\"\n[backends.gone]\ncommand = [\"/nonexistent\"]\n",
        stdio_fixture(),
        other.url
    );
    let config = format!("{backends}{ROLES}");
    let gateway = Gateway::start(folder, &config, &["--token-file", &tokens]).await;
    let roles = Roles(gateway);
    wait_until("the tools", async || {
        roles
            .names("admin", Dialect::Modern)
            .await
            .iter()
            .any(|name| name.starts_with("c__"))
    })
    .await;
    let why = async |principal| roles.call(principal, "gone__anything", json!({})).await;
    assert_contains(&why("admin").await, "backend gone");
    assert_lacks(&why("oncall").await, "backend gone");
    let members = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    for (principal, sees) in [("admin", true), ("oncall", false), ("guest", false)] {
        let dialect = Dialect::Unversioned;
        let shown = roles
            .request(principal, dialect, "initialize", "", members)
            .await
            .body;
        assert_eq!(shown.contains("Use c well."), sees, "{principal} {shown}");
    }
}

/// `mcp-gateway explain` says the deciding line, and its exit code tells the outcome.
#[tokio::test]
async fn explain_names_the_deciding_line() {
    let folder = Folder::new();
    let config = format!("[backends.b]\n{}\n{ROLES}", stdio_fixture());
    let file = folder.write("gateway.toml", &config);
    let broken = folder.write("broken.toml", &config.replace("\"reader\"]", "\"raeder\"]"));
    let line = |text: &str| {
        let at = config.lines().position(|line| line.contains(text));
        1 + at.unwrap()
    };
    let denied = format!(
        "denied by line {}: roles.oncall.deny: \"b__test_error_handling\"",
        line("deny = [\"b__")
    );
    let allowed = format!(
        "allowed by line {}: roles.oncall.allow: \"b__*\"",
        line("allow = [\"b__*")
    );
    let decoded = format!(
        "denied by line {}: roles.reader.deny: \"test://template/7*\"",
        line("template/7")
    );
    let fault = r#"roles.oncall.inherits: there is no role "raeder"; did you mean "reader"?"#;
    for (file, principal, item, code, expected) in [
        (
            &file,
            "oncall",
            "b__test_error_handling",
            1,
            format!("role oncall: {denied}"),
        ),
        (
            &file,
            "oncall",
            "b__echo",
            0,
            format!("role oncall: {allowed}"),
        ),
        (
            &file,
            "reader",
            "test://template/%37",
            1,
            format!("role reader: {decoded}"),
        ),
        (
            &file,
            "nobody",
            "b__greet",
            1,
            "role none: denied: no rule allows it".to_owned(),
        ),
        (
            &broken,
            "reader",
            "b__greet",
            78,
            format!("{broken}:{}: {fault}", line("inherits")),
        ),
    ] {
        let args = ["explain", "--config", file, "--as", principal, item];
        let run = tokio::process::Command::new(binary("mcp-gateway"))
            .args(args)
            .output();
        let run = run.await.unwrap();
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim_end(), expected);
    }
}

/// The operator's texts and effect of a tool take the place of its own, and roles go by that effect.
#[tokio::test]
async fn texts_and_effect_of_a_tool_can_be_set() {
    let tools =
        "[backends.b.tools.greet]\ndescription = \"Says hello.\"\neffect = \"destructive\"\n";
    let roles = "[roles.reads]\nallow = [\"b__greet\", \"b__echo\"]\neffects = [\"reads\"]\n";
    let roles = Roles::start_with("", &format!("{tools}{roles}"), &[("guest", "reads")]).await;
    for dialect in Dialect::ALL {
        let listed = roles
            .request("admin", dialect, "tools/list", "", "")
            .await
            .json();
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
