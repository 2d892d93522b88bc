//! Triggers with a URL: webhooks of every response mode, chats and forms. They are run right after
//! their activation, which n8n completes a moment later.

use super::*;

#[tokio::test]
async fn failure_has_node_and_message_without_stack() {
    let Some(env) = Env::urls().await else { return };
    for mode in ["lastNode", "onReceived", "responseNode"] {
        let mut nodes = vec![webhook(mode), fail("boom")];
        if mode == "responseNode" {
            nodes.push(respond());
        }
        let workflow = env.live(nodes).await;
        let failed = env.run(&workflow, json!({})).await;
        assert_has!(failed, {"status": "failed", "error": {"node": "Stop", "message": "boom"}});
        assert!(!failed.to_string().contains("node_modules"), "{failed}");
    }
}

#[tokio::test]
async fn webhooks_with_parameters_in_their_path_and_of_all_methods_and_chats_run() {
    let Some(env) = Env::urls().await else { return };
    let path = format!("{}/:item/of/:group", unique("items"));
    let expression = "={{ $json.params.item + ' ' + $json.params.group + ' ' + $json.query.q }}";
    let trigger = webhook_at(&path, "GET", "lastNode");
    let workflow = env.live(vec![trigger, set(expression)]).await;
    let given = json!({"item": "a b", "group": 7, "q": "ü&=?"});
    let got = env.run(&workflow, given).await;
    assert_eq!(got["output"], json!({"result": "a b 7 ü&=?"}), "{got}");
    for item in [json!(null), json!(".."), json!("a/b")] {
        refused!(env, "run_workflow", {"workflow_id": workflow.id,
            "parameters": {"item": item, "group": 1}}, "`parameters.item`");
    }
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        let trigger = webhook_at(&unique("hook"), method, "lastNode");
        let input = set("={{ $json.body.input ?? $json.query.input }}");
        let workflow = env.live(vec![trigger, input]).await;
        let id_and_input = json!({"workflow_id": workflow.id, "parameters": {"input": method}});
        if method == "HEAD" {
            // Its answer has no body that would say that n8n does not know the URL yet.
            eventually("the activation", async || {
                let ran = call(&env, "run_workflow", id_and_input.clone()).await;
                (!ran.is_error).then_some(())
            })
            .await;
        }
        let ran = run_with(&env, id_and_input).await;
        assert_eq!(ran["output"], json!({ "result": method }), "{ran}");
    }
    let answer = set("={{ 'echo ' + $json.chatInput }}");
    let workflow = env.live(vec![chat(), answer]).await;
    let ran = env.run(&workflow, json!({"chatInput": "hi"})).await;
    assert_has!(ran, {"output": {"result": "echo hi"}, "way": "chat"});
    env.execution(&ran).await;
    refused!(env, "run_workflow", {"workflow_id": workflow.id, "parameters": {}}, "`parameters.chatInput`");
}

#[tokio::test]
async fn form_with_files_runs() {
    let Some(env) = Env::urls().await else { return };
    let fields = json!([
        {"fieldLabel": "CV", "fieldType": "file", "multipleFiles": false, "requiredField": true},
        {"fieldLabel": "More", "fieldType": "file", "multipleFiles": true},
    ]);
    let expression = "={{ JSON.stringify([$json.CV.filename, $json.CV.mimetype, $json.CV.size, \
                      $json.More.map(file => file.filename), $binary.CV.fileName]) }}";
    let workflow = env.live(vec![form_with(&fields), set(expression)]).await;
    let file = json!({"name": "Änne \"A\"\r\nX: y.csv", "type": "text/csv", "base64": "YSxiCg=="});
    let more = json!(["one", {"name": "two.md", "text": "# two"}]);
    let filled = env
        .run(&workflow, json!({"CV": &file, "More": &more}))
        .await;
    let result = filled["output"]["result"].as_str().unwrap_or_default();
    let result: Value = serde_json::from_str(result).expect(result);
    assert_starts_with(&result[0], "Änne ");
    assert_eq!((&result[1], &result[2]), (&json!("text/csv"), &json!(4)));
    // n8n returns them in the order in which it has saved them.
    let mut names: Vec<_> = result[3].as_array().unwrap().iter().collect();
    names.sort_by_key(|name| name.to_string());
    assert_eq!(names, ["file.txt", "two.md"], "{filled}");
    assert!(result[4].is_string(), "{filled}");
    // A file may be among the `files`.
    let given = json!({"workflow_id": workflow.id, "files": {"CV": file, "More": more}});
    let filled = run_with(&env, given).await;
    assert_contains(&filled["output"]["result"], "nne ");
    let table = json!([
        [{}, "asks for `parameters.CV`"],
        [{"CV": {"path": "/etc/passwd"}}, "`CV` is a file"],
        [{"CV": ["a", "b"]}, "`CV` takes one file"],
        [{"CV": {"name": "a"}}, "`CV` is a file"],
        [{"CV": {"text": "a", "base64": "YQ=="}}, "`CV` is a file"],
        [{"CV": 7}, "`CV` is a file"],
        [{"CV": {"base64": "?"}}, "`base64`"],
        [{"CV": {"text": "a", "type": "text/x\r\nA: b"}}, "`type`"],
    ]);
    for row in table.as_array().unwrap() {
        let (parameters, part) = (&row[0], row[1].as_str().unwrap());
        refused!(env, "run_workflow", {"workflow_id": workflow.id, "parameters": parameters}, part);
    }
}

#[tokio::test]
async fn url_is_preferred_and_caller_must_choose_among_equal_triggers() {
    let Some(env) = Env::full().await else { return };
    let mut second = webhook("lastNode");
    second["name"] = json!("Second");
    let nodes = vec![webhook("lastNode"), second, schedule()];
    let workflow = env.connected_nodes(nodes, json!({})).await;
    let both = "`Webhook` (webhook), `Second` (webhook)";
    refused!(env, "run_workflow", {"workflow_id": workflow.id}, both);
    let arguments = json!({"workflow_id": workflow.id, "trigger": "Third"});
    assert_refused(&env, "run_workflow", arguments, "no trigger \"Third\"").await;
    let second = json!({"workflow_id": workflow.id, "trigger": "Second"});
    let ran = run_with(&env, second).await;
    assert_has!(ran, {"status": "completed", "trigger": "Second"});
    let ran = done!(env, "run_workflow", {"workflow_id": workflow.id, "trigger": "Schedule"});
    assert_has!(ran, {"trigger": "Schedule", "way": "mcp_production"});
}
