//! `resume_execution`: executions that wait for a request, a form or a person.

use super::node_builders::base;
use super::*;

/// The id of an execution that waits at one of these nodes.
async fn waiting(env: &Env, nodes: Vec<Value>) -> Value {
    waiting_of(env, &env.live(nodes).await).await
}

async fn waiting_of(env: &Env, workflow: &TestWorkflow) -> Value {
    done!(*env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    execution_with(env, workflow, "waiting").await
}

#[tokio::test]
async fn request_and_form_are_sent_and_an_answer_of_the_workflow_is_no_refusal() {
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
        arguments = agreed(&env, "resume_execution", arguments).await;
        // The agreement to `yes` is none to `no`.
        let mut other = arguments.clone();
        other["parameters"] = json!({"answer": "no"});
        assert_refused(&env, "resume_execution", other, "Nothing was done yet").await;
        let resumed = ended(&env, "resume_execution", arguments.clone()).await;
        assert_has!(resumed, {"status": "completed", "output": {"result": "yes"}});
        assert_eq!(resumed["execution_id"], id);
        assert_refused(&env, "resume_execution", arguments, "does not wait").await;
        let data = env.execution(&resumed).await;
        if let Some(token) = data["data"]["resumeToken"].as_str() {
            let shown = done!(env, "get_execution", {"execution_id": id, "view": "full"});
            assert_lacks(&shown.to_string(), token);
        }
    }
    // A workflow that answers behind its wait, with the status of a refusal.
    let parameters = json!({"resume": "webhook", "responseMode": "responseNode", "options": {}});
    let mut answer = respond();
    answer["parameters"]["options"] = json!({"responseCode": 429});
    let nodes = vec![
        webhook("onReceived"),
        base("Wait", "wait", 1.1, parameters),
        answer,
    ];
    let id = waiting(&env, nodes).await;
    let arguments = agreed(&env, "resume_execution", json!({"execution_id": id})).await;
    let resumed = ended(&env, "resume_execution", arguments).await;
    assert_has!(resumed, {"status": "completed"});
    assert_contains(&resumed["note"], "HTTP 429");
}

#[tokio::test]
async fn next_page_of_a_form_is_filled_in_and_no_wait_for_a_time_is_ended() {
    let Some(env) = Env::urls().await else { return };
    let page = |name: &str, field: &str| {
        let fields = json!({"values": [{"fieldLabel": field, "requiredField": true}]});
        let parameters = json!({"formFields": fields, "options": {}});
        base(name, "form", 1.0, parameters)
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
    let unknown = fill(json!({"colour": "red", "shape": 1}));
    assert_refused(&env, tool, unknown, "no field \"shape\"").await;
    let fill_in = async |parameters: Value| {
        let arguments = agreed(&env, tool, fill(parameters)).await;
        done(&env, tool, arguments).await
    };
    let filled = fill_in(json!({"colour": "red"})).await;
    assert_has!(filled, {"status": "waiting"});
    let filled = fill_in(json!({"size": 7})).await;
    assert_has!(filled, {"status": "waiting"});
    let named = fill(json!({"shape": "round"}));
    assert_refused(&env, tool, named, "computes the fields of this form").await;
    let filled = fill_in(json!({"field-1": "round"})).await;
    assert_has!(filled, {"status": "waiting"});
    // The last page ends the execution once it is shown.
    assert_refused(&env, tool, fill(json!({"size": 7})), "It has no fields").await;
    let filled = fill_in(json!({})).await;
    let filled = followed(&env, filled, &Value::Null).await;
    assert_has!(filled, {"status": "completed", "output": {"result": "red 7 round"}});
    let id = waiting(&env, vec![webhook("onReceived"), wait(600), set("x")]).await;
    refused!(env, "resume_execution", {"execution_id": id, "confirm": id}, "continues by itself");
    let shown = done!(env, "get_execution", {"execution_id": id});
    assert_has!(shown, {"waits": {"node": "Wait", "for": "time"}});
    assert!(shown["waits"]["until"].is_string(), "{shown}");
    assert_contains(&shown["note"], "by itself at that time");
}

/// Two approvals one behind the other: the agreement to the first is none to the second, and neither is that to one turn
/// of a loop to the next.
#[tokio::test]
async fn agreement_counts_for_one_wait() {
    let Some(env) = Env::urls().await else { return };
    let parameters = json!({"resume": "webhook", "options": {}});
    let pause = |name: &str| base(name, "wait", 1.1, parameters.clone());
    let nodes = vec![webhook("onReceived"), pause("A"), pause("B")];
    let loops = json!({"Webhook": leads_to("A"), "A": leads_to("B"), "B": leads_to("A")});
    let workflow = env.connected_nodes(nodes, loops).await;
    let id = waiting_of(&env, &workflow).await;
    let tool = "resume_execution";
    let mut given = json!({"execution_id": id});
    for place in [
        "behind \"A\" (its run 1)",
        "behind \"B\" (its run 1)",
        "behind \"A\" (its run 2)",
    ] {
        // With the value of the place before.
        assert_refused(&env, tool, given.clone(), place).await;
        given = agreed(&env, tool, given).await;
        assert_has!(done(&env, tool, given.clone()).await, {"status": "waiting"});
    }
    done!(env, "stop_execution", {"execution_id": id});
}
