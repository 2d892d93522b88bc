//! Triggers with a URL: webhooks of every response mode, chats and forms. They are run the moment
//! they were activated, which n8n takes a moment to notice.

use serde_json::json;

use super::super::site::{
    Site, chat, echo, fail, form, form_with, respond, set, unique, webhook, webhook_at,
};
use super::super::{SERVER, done, refused};
use super::run;
use crate::harness::{assert_contains, stdio_client};
use crate::n8n::session;

#[tokio::test]
async fn webhooks_of_both_plain_modes() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    for mode in ["lastNode", "onReceived"] {
        let workflow = site.live(vec![webhook(mode), echo()]).await;
        let run = run(&client, &workflow, json!({"input": "Hello, World!"})).await;
        assert_eq!(run["status"], "completed", "{run}");
        assert_eq!(run["output"], json!({"result": "Hello, World!"}), "{run}");
        assert_eq!(run["way"], "webhook");
        let execution = site.execution(&run).await;
        assert_eq!(execution["workflowId"], *workflow.id);
        assert_eq!(execution["status"], "success");
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn a_webhook_that_a_node_answers() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let workflow = site
        .live(vec![webhook("responseNode"), echo(), respond()])
        .await;
    let answered = run(&client, &workflow, json!({"input": "x"})).await;
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!(answered["output"], json!({"result": "x"}));
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_failure_names_node_and_message_without_stack() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    for mode in ["lastNode", "onReceived", "responseNode"] {
        let mut nodes = vec![webhook(mode), fail("boom")];
        if mode == "responseNode" {
            nodes.push(respond());
        }
        let workflow = site.live(nodes).await;
        let failed = run(&client, &workflow, json!({})).await;
        assert_eq!(failed["status"], "failed", "{failed}");
        assert_eq!(failed["error"], json!({"node": "Stop", "message": "boom"}));
        assert!(!failed.to_string().contains("node_modules"), "{failed}");
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn get_with_parameters_in_its_path() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let path = format!("{}/:item/of/:group", unique("items"));
    let expression = "={{ $json.params.item + ' ' + $json.params.group + ' ' + $json.query.q }}";
    let workflow = site
        .live(vec![webhook_at(&path, "GET", "lastNode"), set(expression)])
        .await;
    let given = json!({"item": "a b", "group": 7, "q": "ü&=?"});
    let got = run(&client, &workflow, given).await;
    assert_eq!(got["output"], json!({"result": "a b 7 ü&=?"}), "{got}");
    for item in [json!(null), json!(".."), json!("a/b")] {
        let message = refused!(client, "run_workflow", {"workflow_id": workflow.id,
            "parameters": {"item": item, "group": 1}});
        assert!(message.contains("`parameters.item`"), "{message}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn other_methods() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    for method in ["PUT", "PATCH", "DELETE"] {
        let trigger = webhook_at(&unique("hook"), method, "lastNode");
        let input = set("={{ $json.body.input ?? $json.query.input }}");
        let workflow = site.live(vec![trigger, input]).await;
        let ran = run(&client, &workflow, json!({"input": method})).await;
        assert_eq!(ran["output"], json!({ "result": method }), "{ran}");
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn a_chat() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let workflow = site
        .live(vec![chat(), set("={{ 'echo ' + $json.chatInput }}")])
        .await;
    let said = run(&client, &workflow, json!({"chatInput": "hi"})).await;
    assert_eq!(said["output"], json!({"result": "echo hi"}), "{said}");
    assert_eq!(said["way"], "chat");
    site.execution(&said).await;
    let message = refused!(client, "run_workflow", {"workflow_id": workflow.id, "parameters": {}});
    assert!(message.contains("`parameters.chatInput`"), "{message}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_form() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let workflow = site.live(vec![form(), set("={{ $json.input }}")]).await;
    let filled = run(&client, &workflow, json!({"input": "a\r\nb"})).await;
    assert_eq!(filled["output"], json!({"result": "a\r\nb"}), "{filled}");
    assert_eq!(filled["way"], "form");
    site.execution(&filled).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_form_with_fields_of_many_kinds() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let options = json!({"values": [{"option": "red"}, {"option": "blue"}]});
    let fields = json!([
        {"fieldLabel": "Your name", "requiredField": true},
        {"fieldLabel": "Age", "fieldType": "number"},
        {"fieldLabel": "Colours", "fieldType": "dropdown", "multiselect": true, "fieldOptions": options},
    ]);
    let expression = "={{ JSON.stringify([$json['Your name'], $json.Age, $json.Colours]) }}";
    let workflow = site.live(vec![form_with(&fields), set(expression)]).await;
    let given = json!({"Your name": "Änne", "Age": 7, "Colours": ["red", "blue"]});
    let filled = run(&client, &workflow, given).await;
    let expected = r#"["Änne",7,["red","blue"]]"#;
    assert_eq!(filled["output"], json!({ "result": expected }), "{filled}");
    for (parameters, part) in [
        (json!({"Age": 1}), "asks for `parameters.Your name`"),
        (json!({"Your name": "x", "Shoe": 1}), "no field \"Shoe\""),
    ] {
        let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
        let message = refused(&client, "run_workflow", arguments).await;
        assert!(message.contains(part), "{message}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_form_with_files() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let fields = json!([
        {"fieldLabel": "CV", "fieldType": "file", "multipleFiles": false, "requiredField": true},
        {"fieldLabel": "More", "fieldType": "file", "multipleFiles": true},
    ]);
    let expression = "={{ JSON.stringify([$json.CV.filename, $json.CV.mimetype, $json.CV.size, \
                      $json.More.map(file => file.filename), $binary.CV.fileName]) }}";
    let workflow = site.live(vec![form_with(&fields), set(expression)]).await;
    let file = json!({"name": "Änne \"A\".csv", "type": "text/csv", "base64": "YSxiCg=="});
    let more = json!(["one", {"name": "two.md", "text": "# two"}]);
    let filled = run(&client, &workflow, json!({"CV": file, "More": more})).await;
    let result = filled["output"]["result"].as_str().unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(result).expect(result);
    assert!(result[0].as_str().unwrap().starts_with("Änne "), "{filled}");
    assert_eq!((&result[1], &result[2]), (&json!("text/csv"), &json!(4)));
    // n8n has them in the order in which it has written them down.
    let mut names: Vec<_> = result[3].as_array().unwrap().iter().collect();
    names.sort_by_key(|name| name.to_string());
    assert_eq!(names, ["file.txt", "two.md"], "{filled}");
    assert!(result[4].is_string(), "{filled}");
    for (parameters, part) in [
        (json!({}), "asks for `parameters.CV`"),
        (
            json!({"CV": {"path": "/etc/passwd"}}),
            "`parameters.CV` is a file",
        ),
        (json!({"CV": ["a", "b"]}), "`parameters.CV` takes one file"),
    ] {
        let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
        let message = refused(&client, "run_workflow", arguments).await;
        assert!(message.contains(part), "{message}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn over_stdio() {
    let Some(site) = Site::new() else { return };
    let client = stdio_client(SERVER, &site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), echo()]).await;
    let ran = run(&client, &workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    site.delete(&workflow).await;
    client.close().await;
}

#[tokio::test]
async fn several_triggers_have_to_be_chosen_from() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let mut second = webhook("lastNode");
    second["name"] = json!("Second");
    let workflow = site.live(vec![webhook("lastNode"), second]).await;
    let message = refused(&client, "run_workflow", json!({"workflow_id": workflow.id})).await;
    assert_contains(&message, "`Webhook` (webhook), `Second` (webhook)");
    let arguments = json!({"workflow_id": workflow.id, "trigger": "Third"});
    let message = refused(&client, "run_workflow", arguments).await;
    assert!(message.contains("no trigger \"Third\""), "{message}");
    let ran = done!(client, "run_workflow", {"workflow_id": workflow.id, "trigger": "Second"});
    assert_has!(ran, {"status": "completed", "trigger": "Second"});
    site.delete(&workflow).await;
}
