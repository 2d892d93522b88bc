//! Workflows as tools.

use serde_json::{Value, json};

use super::lab::{Lab, sticky};
use crate::harness::wait_until;
use crate::n8n::done;
use crate::n8n::site::{Workflow, chat, echo, form, form_with, set, unique, webhook, webhook_at};

/// A lab whose tools are the workflows with a tag of their own.
async fn lab() -> Option<(Lab, String)> {
    let tag = unique("t")[..20].to_owned();
    let lab = Lab::with(&["--tool-tag", &tag]).await?;
    let id = lab.tag(&tag).await;
    Some((lab, id))
}

async fn delete_tag(lab: &Lab, id: &str) {
    lab.site.api("DELETE", &format!("/tags/{id}"), None).await;
}

/// The name under which a workflow is listed: its own, as a name of a tool.
fn name(workflow: &Workflow) -> String {
    workflow.name.replace('-', "_").chars().take(64).collect()
}

/// Waits until the list has, or has not, the tool.
async fn listed(lab: &Lab, name: &str, is_there: bool) {
    wait_until(name, async || {
        lab.tools().await.iter().any(|tool| tool == name) == is_there
    })
    .await;
}

async fn definition(lab: &Lab, name: &str) -> Value {
    let all = lab.server.result("tools/list", json!({})).await;
    let tools = all["tools"].as_array().unwrap();
    tools
        .iter()
        .find(|tool| tool["name"] == name)
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_tagged_workflow_comes_and_goes_as_a_tool() {
    let Some((lab, tag)) = lab().await else {
        return;
    };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    lab.put_tags(&workflow, &[&tag]).await;
    let name = name(&workflow);
    listed(&lab, &name, true).await;
    let tool = definition(&lab, &name).await;
    assert_has!(tool, {"inputSchema": {"properties": {"input": {"type": "string"}}}});
    let run = done(&lab, &name, json!({"input": "as a tool"})).await;
    assert_eq!(run["output"], json!({"result": "as a tool"}), "{run}");
    assert!(run["execution_id"].is_string());
    lab.put_tags(&workflow, &[]).await;
    listed(&lab, &name, false).await;
    lab.site.delete(&workflow).await;
    delete_tag(&lab, &tag).await;
}

#[tokio::test]
async fn the_schema_comes_from_the_trigger_or_a_note() {
    let Some((lab, tag)) = lab().await else {
        return;
    };
    let path = format!("{}/:city", unique("w"));
    let by_path = lab
        .site
        .live(vec![
            webhook_at(&path, "GET", "lastNode"),
            set("={{ $json.params.city + ' ' + $json.query.units }}"),
        ])
        .await;
    let by_form = lab.site.live(vec![form(), set("x")]).await;
    let by_chat = lab
        .site
        .live(vec![chat(), set("={{ $json.chatInput }}")])
        .await;
    let schema = r#"{"type": "object", "properties": {"input": {"type": "string", "description": "What to say."}}, "required": ["input"]}"#;
    let note = sticky(&format!("Says it again.\n```json\n{schema}\n```"));
    let by_note = lab.site.live(vec![webhook("lastNode"), echo(), note]).await;
    for workflow in [&by_path, &by_form, &by_chat, &by_note] {
        lab.put_tags(workflow, &[&tag]).await;
    }
    for (workflow, properties, required) in [
        (&by_path, json!(["city", "units"]), json!(["city"])),
        (&by_form, json!(["input"]), Value::Null),
        (&by_chat, json!(["chatInput"]), json!(["chatInput"])),
        (&by_note, json!(["input"]), json!(["input"])),
    ] {
        let name = name(workflow);
        listed(&lab, &name, true).await;
        let tool = definition(&lab, &name).await;
        let keys: Vec<_> = tool["inputSchema"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(json!(keys), properties, "{tool}");
        assert_eq!(
            tool["inputSchema"]
                .get("required")
                .cloned()
                .unwrap_or_default(),
            required,
            "{tool}"
        );
    }
    let tool = definition(&lab, &name(&by_note)).await;
    assert_eq!(tool["description"], "Says it again.");
    let run = done!(lab, &name(&by_path), {"city": "Rome", "units": "C"});
    assert_eq!(run["output"], json!({"result": "Rome C"}), "{run}");
    let run = done(&lab, &name(&by_chat), json!({"chatInput": "hi"})).await;
    assert_eq!(run["output"], json!({"result": "hi"}), "{run}");
    let missing = json!({"name": name(&by_note), "arguments": {}});
    let error = lab.server.error("tools/call", missing).await;
    assert!(error.to_string().contains("input"), "{error}");
    for workflow in [&by_path, &by_form, &by_chat, &by_note] {
        lab.site.delete(workflow).await;
    }
    delete_tag(&lab, &tag).await;
}

#[tokio::test]
async fn a_form_tells_the_types_of_its_fields() {
    let Some((lab, tag)) = lab().await else {
        return;
    };
    let colours = json!({"values": [{"option": "red"}, {"option": "blue"}]});
    let fields = json!([
        {"fieldLabel": "age", "fieldType": "number", "requiredField": true},
        {"fieldLabel": "day", "fieldType": "date"},
        {"fieldLabel": "one", "fieldType": "dropdown", "fieldOptions": colours},
        {"fieldLabel": "some", "fieldType": "checkbox", "fieldOptions": colours},
        {"fieldLabel": "cv", "fieldType": "file", "multipleFiles": false},
    ]);
    let expression = "={{ JSON.stringify([$json.age, $json.day, $json.one, $json.some]) }}";
    let workflow = lab
        .site
        .live(vec![form_with(&fields), set(expression)])
        .await;
    lab.put_tags(&workflow, &[&tag]).await;
    let name = name(&workflow);
    listed(&lab, &name, true).await;
    let schema = definition(&lab, &name).await["inputSchema"].clone();
    let choice = json!({"type": "string", "enum": ["red", "blue"]});
    for (field, expected) in [
        ("age", json!({"type": "number"})),
        ("day", json!({"type": "string", "format": "date"})),
        ("one", choice.clone()),
        ("some", json!({"type": "array", "items": choice})),
    ] {
        assert_eq!(schema["properties"][field], expected, "{schema}");
    }
    assert_has!(schema, {"properties": {"cv": {"type": "object"}}, "required": ["age"]});
    let run = done!(lab, &name, {"age": 7, "day": "2026-12-31", "one": "red", "some": ["blue"]});
    let expected = r#"[7,"2026-12-31","red",["blue"]]"#;
    assert_eq!(run["output"], json!({ "result": expected }), "{run}");
    lab.site.delete(&workflow).await;
    delete_tag(&lab, &tag).await;
}

#[tokio::test]
async fn names_collide_with_nothing() {
    let Some((lab, tag)) = lab().await else {
        return;
    };
    let shadow = lab
        .live_as("List workflows", vec![webhook("lastNode"), echo()])
        .await;
    let twin = unique("twin");
    let one = lab
        .live_as(&twin, vec![webhook("lastNode"), set("one")])
        .await;
    let two = lab
        .live_as(&twin, vec![webhook("lastNode"), set("two")])
        .await;
    for workflow in [&shadow, &one, &two] {
        lab.put_tags(workflow, &[&tag]).await;
    }
    let with_id = |name: &str, id: &str| {
        let part: String = id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(6)
            .collect();
        format!("{}_{part}", name.replace('-', "_"))
    };
    listed(&lab, &with_id(&twin, &one.id), true).await;
    listed(&lab, &with_id(&twin, &two.id), true).await;
    listed(&lab, &with_id("list_workflows", &shadow.id), true).await;
    let run = done(&lab, &with_id(&twin, &two.id), json!({})).await;
    assert_eq!(run["output"], json!({"result": "two"}), "{run}");
    let own = done(&lab, "list_workflows", json!({"limit": 1})).await;
    assert!(own["workflows"].is_array(), "{own}");
    for workflow in [&shadow, &one, &two] {
        lab.site.delete(workflow).await;
    }
    delete_tag(&lab, &tag).await;
}

#[tokio::test]
async fn a_server_that_only_reads_has_no_such_tools() {
    let Some((lab, tag)) = lab().await else {
        return;
    };
    let tag_name = lab.site.api("GET", &format!("/tags/{tag}"), None).await;
    let reader = Lab::with(&[
        "--read-only",
        "--tool-tag",
        tag_name["name"].as_str().unwrap(),
    ])
    .await
    .unwrap();
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    lab.put_tags(&workflow, &[&tag]).await;
    listed(&lab, &name(&workflow), true).await;
    let tools = reader.tools().await;
    assert!(
        !tools.contains(&name(&workflow)) && !tools.contains(&"run_workflow".to_owned()),
        "{tools:?}"
    );
    lab.site.delete(&workflow).await;
    delete_tag(&lab, &tag).await;
}
