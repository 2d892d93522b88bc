//! `resume_execution`: executions that wait for a request, a form or a person.

use super::node_builders::base;
use super::*;

/// The id of an execution that waits at one of these nodes.
async fn waiting(env: &Env, nodes: Vec<Value>) -> Value {
    let workflow = env.live(nodes).await;
    done!(*env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    execution_with(env, &workflow, "waiting").await
}

#[tokio::test]
async fn request_and_form_that_an_execution_waits_for_are_sent() {
    let Some(env) = Env::urls().await else { return };
    let form = json!({"resume": "form", "formTitle": "T", "options": {},
        "formFields": {"values": [{"fieldLabel": "answer"}]}});
    let post = json!({"resume": "webhook", "httpMethod": "POST", "options": {}});
    let get = json!({"resume": "webhook", "options": {"webhookSuffix": "decision"}});
    for (parameters, expression, what) in [
        (form, "={{ $json.answer }}", "form"),
        (post, "={{ $json.body.answer }}", "request"),
        (get, "={{ $json.query.answer }}", "request"),
    ] {
        let nodes = vec![
            webhook("onReceived"),
            base("Wait", "wait", 1.1, parameters),
            set(expression),
        ];
        let id = waiting(&env, nodes).await;
        let shown = done!(env, "get_execution", {"execution_id": id});
        assert_has!(shown, {"status": "waiting", "waits": {"node": "Wait", "for": what}});
        assert_eq!(shown["waits"].get("until"), None, "{shown}");
        if what == "form" {
            let fields = json!({"type": "object", "properties": {"answer": {"type": "string"}}});
            assert_eq!(shown["waits"]["parameters"], fields);
        }
        let mut arguments = json!({"execution_id": id, "parameters": {"answer": "yes"}});
        let asked = call(&env, "resume_execution", arguments.clone()).await;
        assert!(asked.is_error, "{}", asked.text());
        assert_contains(&asked.text(), "Nothing was done yet");
        assert_contains(&asked.text(), "behind \"Wait\"");
        arguments["confirm"] = id.clone();
        let resumed = done(&env, "resume_execution", arguments.clone()).await;
        let resumed = followed(&env, resumed, &Value::Null).await;
        assert_has!(resumed, {"status": "completed", "output": {"result": "yes"}});
        assert_eq!(resumed["execution_id"], id);
        assert_refused(&env, "resume_execution", arguments, "does not wait").await;
        let data = env.execution(&resumed).await;
        if let Some(token) = data["data"]["resumeToken"].as_str() {
            let shown = done!(env, "get_execution", {"execution_id": id, "view": "full"});
            assert_lacks(&shown.to_string(), token);
        }
    }
}

#[tokio::test]
async fn next_page_of_a_form_is_filled_in() {
    let Some(env) = Env::urls().await else { return };
    let page = |name: &str, field: &str| {
        let fields = json!({"values": [{"fieldLabel": field, "requiredField": true}]});
        base(
            name,
            "form",
            1.0,
            json!({"formFields": fields, "options": {}}),
        )
    };
    let all =
        "={{ $('First').item.json.colour + ' ' + $('Second').item.json.size + ' ' + $json.shape }}";
    let mut second = page("Second", "size");
    second["parameters"] = json!({"defineForm": "json",
        "jsonOutput": r#"[{"fieldType": "html"}, {"fieldLabel": "size", "fieldType": "number"}]"#});
    let mut third = page("Third", "shape");
    third["parameters"] = json!({"defineForm": "json",
        "jsonOutput": "={{ JSON.stringify([{fieldType: 'html'}, {fieldLabel: 'shape'}]) }}"});
    let end = json!({"operation": "completion", "completionTitle": "Thanks", "options": {}});
    let end = base("End", "form", 1.0, end);
    let nodes = vec![
        form(),
        page("First", "colour"),
        second,
        third,
        set(all),
        end,
    ];
    let id = waiting(&env, nodes).await;
    let fill =
        |parameters: Value| json!({"execution_id": id, "confirm": id, "parameters": parameters});
    let tool = "resume_execution";
    assert_refused(&env, tool, fill(json!({})), "asks for `parameters.colour`").await;
    assert_refused(
        &env,
        tool,
        fill(json!({"colour": "red", "shape": 1})),
        "no field \"shape\"",
    )
    .await;
    let filled = done(&env, tool, fill(json!({"colour": "red"}))).await;
    assert_has!(filled, {"status": "waiting"});
    let filled = done(&env, tool, fill(json!({"size": 7}))).await;
    assert_has!(filled, {"status": "waiting"});
    let named = fill(json!({"shape": "round"}));
    assert_refused(&env, tool, named, "computes the fields of this form").await;
    let filled = done(&env, tool, fill(json!({"field-1": "round"}))).await;
    assert_has!(filled, {"status": "waiting"});
    // The last page ends the execution once it is shown.
    assert_refused(&env, tool, fill(json!({"size": 7})), "It has no fields").await;
    let filled = done(&env, tool, fill(json!({}))).await;
    let filled = followed(&env, filled, &Value::Null).await;
    assert_has!(filled, {"status": "completed", "output": {"result": "red 7 round"}});
}

#[tokio::test]
async fn execution_that_waits_for_something_else_is_not_resumed() {
    let Some(env) = Env::urls().await else { return };
    let id = waiting(&env, vec![webhook("onReceived"), wait(600), set("x")]).await;
    refused!(env, "resume_execution", {"execution_id": id, "confirm": id}, "continues by itself");
    let shown = done!(env, "get_execution", {"execution_id": id});
    assert_has!(shown, {"waits": {"node": "Wait", "for": "time"}});
    assert!(shown["waits"]["until"].is_string(), "{shown}");
    assert_contains(&shown["note"], "by itself at that time");
}
