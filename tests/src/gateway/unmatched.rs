//! Rules that match nothing are told with the nearest name, and refused where they would leave something open.

use serde_json::{Value, json};

use super::env::{Folder, Gateway};
use crate::harness::{assert_contains, assert_lacks, eventually, wait_until};

/// Tables of the configuration, the place of what does not match, and whether it would leave something open.
const RULES: &str = r#"
[roles.r]\nallow = ["*"]\ndeny = ["b__gree"] => roles.r.deny: "b__gree" => fail
[roles.r]\nallow = ["*"]\nconfirm = ["b__gree"] => roles.r.confirm: "b__gree" => fail
[approvals]\napprove = ["b__gree"] => approvals.approve: "b__gree" => fail
[views.v]\ndeny = ["b__gree"] => views.v.deny: "b__gree" => fail
[backends.c]\nFIXTURE\ndeny = ["gree"] => backends.c.deny: "gree" => fail
[backends.c]\nFIXTURE\n[backends.c.tools.gree]\neffect = "destructive" => backends.c.tools.gree => fail
[roles.r]\nallow = ["b__gree"] => roles.r.allow: "b__gree" => warn
[roles.r]\nallow = ["b__greet"]\narguments = { names = "A*" } => roles.r.arguments: "names" => warn
[events]\nrecord = ["b__greet.names"] => events.record: "names" => warn
[backends.c]\nFIXTURE\nallow = ["gree"] => backends.c.allow: "gree" => warn
[backends.c]\nFIXTURE\n[backends.c.tools.gree]\ntitle = "T" => backends.c.tools.gree => warn
"#;

fn config(rule: &str) -> String {
    format!("[backends.b]\nFIXTURE\n{rule}\n")
}

async fn unmatched(gateway: &Gateway) -> String {
    gateway.status().await["unmatched_rules"].to_string()
}

#[tokio::test]
async fn rules_that_match_nothing_are_told_with_the_nearest_name() {
    for row in RULES.trim().lines() {
        let [rule, place, status] = row.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let rule = format!("{}\n", rule.replace("\\n", "\n"));
        // Roles need one for the client of this test.
        let principals = match rule.contains("[roles") {
            true => "own = [\"events:all\", \"gateway_status\"]\n[principals]\ndefault = \"r\"\n",
            false => "",
        };
        let file = config(&format!("{rule}{principals}"));
        let gateway = Gateway::start(Folder::new(), &file, &[]).await;
        let quoted = json!(place).to_string();
        let place = &quoted[1..quoted.len() - 1];
        wait_until(place, async || unmatched(&gateway).await.contains(place)).await;
        let told = unmatched(&gateway).await;
        assert_contains(&told, "did you mean");
        let is_of_argument = place.contains("arguments") || place.contains("record");
        assert_contains(&told, if is_of_argument { "name" } else { "greet" });
        gateway.wait_for_log("matches nothing").await;
        // The file is the same for a gateway that is not running.
        let doctor = ["doctor", "--json", "--port", "1"];
        let (_, found) = gateway.folder.command("memory", &doctor).await;
        let found: Value = serde_json::from_str(&found).unwrap();
        let of_rule = found.as_array().unwrap().iter();
        let of_rule = of_rule.filter(|found| found["text"].to_string().contains("matches nothing"));
        let statuses: Vec<&str> = of_rule
            .map(|found| found["status"].as_str().unwrap())
            .collect();
        assert_eq!(statuses, [status], "{found}");
    }
}

#[tokio::test]
async fn changed_file_whose_rule_would_leave_something_open_is_refused() {
    let good = config("[approvals]\napprove = [\"b__greet\"]\n");
    let gateway = Gateway::of(&good).await;
    let changes = async |status: &str| {
        let query = json!({"event_type": "gateway.config_changed", "status": status});
        let events = gateway.own("get_events", query).await;
        events.as_array().unwrap().clone()
    };
    for (number, rule) in [
        "[approvals]\napprove = [\"b__greet\", \"b__gree\"]\n",
        "[approvals]\napprove = [\"b__greet\"]\n[views.v]\ndeny = [\"b__gree\"]\n",
    ]
    .into_iter()
    .enumerate()
    {
        gateway.configure(&config(rule));
        let events = eventually("the event", async || {
            Some(changes("failure").await).filter(|events| events.len() > number)
        })
        .await;
        assert_contains(&json!(events), "b__gree");
        gateway.wait_for_log("kept the old configuration").await;
        assert_contains(&gateway.log(), "did you mean");
        assert_lacks(&unmatched(&gateway).await, "gree\\\"");
        let refused = &gateway.status().await["refused_configuration"];
        assert_contains(refused, "b__gree");
    }
    // One that matches is applied, also after a refused one.
    let right = "[approvals]\napprove = [\"b__greet\", \"b__slow\"]\n";
    gateway.configure(&config(right));
    wait_until("the change", async || !changes("success").await.is_empty()).await;
    let status = gateway.status().await;
    assert!(status["refused_configuration"].is_null(), "{status}");
}

#[tokio::test]
async fn names_of_no_token_are_told() {
    let rules = "[roles.oncall]\nallow = [\"*\"]\nown = [\"gateway_status\", \"events:all\"]\n\
        [principals]\nalcie = \"oncall\"\nbob = \"oncall\"\n";
    let tokens = ["alice role=oncal", "bob", "carol"];
    let gateway = Gateway::guarded(&tokens, &config(rules), &[]).await;
    wait_until("the name", async || {
        let told = gateway.told("bob", "gateway_status", json!({})).await;
        told.contains("principals: ") && told.contains("alcie")
    })
    .await;
    // A line that leaves carol the role of all others is refused.
    gateway.configure(&config(&format!(
        "{rules}carl = \"none\"\ndefault = \"oncall\"\n"
    )));
    gateway.wait_for_log("kept the old configuration").await;
    assert_contains(
        &gateway.log(),
        "\"carl\" matches nothing; did you mean \"carol\"?",
    );
    // A token that is added later is known, without a change of the lists.
    let tokens = super::env::tokens(&[&tokens[..], &["alcie"]].concat());
    gateway.folder.write("tokens", &tokens);
    wait_until("the token", async || {
        let told = gateway.told("bob", "gateway_status", json!({})).await;
        !told.contains("alcie")
    })
    .await;
}
