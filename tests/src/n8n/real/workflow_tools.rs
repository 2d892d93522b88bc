//! Workflows as tools.

use super::*;

/// A server whose tools are the workflows with a unique tag, and the tag's name and id.
async fn tagged_env() -> Option<(Env, String, String)> {
    let tag = tag_name();
    let env = Env::with(&["--tool-tag", &tag]).await?;
    let id = env.tag_with(&tag).await;
    Some((env, tag, id))
}

/// The name of the tool for a workflow.
fn tool_name(workflow: &TestWorkflow) -> String {
    workflow.name.replace('-', "_").chars().take(64).collect()
}

/// Waits until the tool is listed, or is not any more.
async fn wait_for_tool(env: &Env, name: &str, is_listed: bool) {
    wait_until(name, async || {
        env.tool_names().await.iter().any(|tool| tool == name) == is_listed
    })
    .await;
}

/// The definition of the tool for a workflow, once it is listed.
async fn definition(env: &Env, workflow: &TestWorkflow) -> Value {
    let name = tool_name(workflow);
    eventually(&name, async || {
        let tools = env.tools().await;
        tools.into_iter().find(|tool| tool["name"] == *name)
    })
    .await
}

#[tokio::test]
async fn tool_appears_and_disappears_with_the_tag_and_a_reader_has_none() {
    let Some((env, tag_name, tag)) = tagged_env().await else {
        return;
    };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    env.set_tags(&workflow, &[&tag]).await;
    let name = tool_name(&workflow);
    let tool = definition(&env, &workflow).await;
    assert_has!(tool, {"inputSchema": {"properties": {"input": {"type": "string"}}}});
    let options = ["--read-only", "--tool-tag", &tag_name];
    let readers = Env::limited(&options).await.unwrap().tools().await;
    assert!(readers.iter().any(|tool| tool["name"] == "read_n8n_api"));
    for tool in readers {
        assert_ne!(tool["name"], *name);
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    let run = ended(&env, &name, json!({"input": "as a tool"})).await;
    assert_eq!(run["output"], json!({"result": "as a tool"}), "{run}");
    assert!(run["execution_id"].is_string());
    env.set_tags(&workflow, &[]).await;
    wait_for_tool(&env, &name, false).await;
}

#[tokio::test]
async fn schema_comes_from_the_trigger_or_a_note() {
    let Some((env, _, tag)) = tagged_env().await else {
        return;
    };
    let path = format!("{}/:city", unique("w"));
    let trigger = webhook_at(&path, "GET", "lastNode");
    let reads = set("={{ $json.params.city + ' ' + $json.query.units }}");
    let by_path = env.live(vec![trigger, reads]).await;
    let by_form = env.live(vec![form(), set("x")]).await;
    let by_chat = env.live(vec![chat(), set("={{ $json.chatInput }}")]).await;
    let schema = r#"{"type": "object", "properties": {"input": {"type": "string", "description": "What to say."}}, "required": ["input"]}"#;
    let note = sticky(&format!(
        "Says it again, password: C4n4ry77\n```json\n{schema}\n```"
    ));
    let by_note = env.live(vec![webhook("lastNode"), echo(), note]).await;
    for workflow in [&by_path, &by_form, &by_chat, &by_note] {
        env.set_tags(workflow, &[&tag]).await;
    }
    for (workflow, properties, required) in [
        (&by_path, json!(["city", "units"]), json!(["city"])),
        (&by_form, json!(["input"]), Value::Null),
        (&by_chat, json!(["chatInput"]), json!(["chatInput"])),
        (&by_note, json!(["input"]), json!(["input"])),
    ] {
        let tool = definition(&env, workflow).await;
        let schema = &tool["inputSchema"];
        let keys: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(json!(keys), properties, "{tool}");
        assert_eq!(schema["required"], required, "{tool}");
    }
    let tool = definition(&env, &by_note).await;
    assert_eq!(tool["description"], "Says it again, password: ***");
    let weather = json!({"city": "Rome", "units": "C"});
    let run = ended(&env, &tool_name(&by_path), weather).await;
    assert_eq!(run["output"], json!({"result": "Rome C"}), "{run}");
    let run = ended(&env, &tool_name(&by_chat), json!({"chatInput": "hi"})).await;
    assert_eq!(run["output"], json!({"result": "hi"}), "{run}");
    let missing = json!({"name": tool_name(&by_note), "arguments": {}});
    let error = env.server.error("tools/call", missing).await;
    assert!(error.to_string().contains("input"), "{error}");
    let colours = json!({"values": [{"option": "red"}, {"option": "blue"}]});
    let fields = json!([
        {"fieldLabel": "age", "fieldType": "number", "requiredField": true},
        {"fieldLabel": "day", "fieldType": "date"},
        {"fieldLabel": "one", "fieldType": "dropdown", "fieldOptions": colours},
        {"fieldLabel": "some", "fieldType": "checkbox", "fieldOptions": colours},
        {"fieldLabel": "cv", "fieldType": "file", "multipleFiles": false},
        {"fieldLabel": "all", "fieldType": "dropdown", "multiselect": true, "fieldOptions": colours},
        {"fieldLabel": "Your name"},
    ]);
    let expression = "={{ JSON.stringify(['age', 'day', 'one', 'some', 'all', 'Your name'].map(key => $json[key])) }}";
    let typed = env.live(vec![form_with(&fields), set(expression)]).await;
    env.set_tags(&typed, &[&tag]).await;
    let name = tool_name(&typed);
    let schema = definition(&env, &typed).await["inputSchema"].clone();
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
    let filled = json!({"age": 7, "day": "2026-12-31", "one": "red", "some": ["blue"],
        "all": ["red", "blue"], "Your name": "Änne"});
    let run = ended(&env, &name, filled).await;
    let expected = r#"[7,"2026-12-31","red",["blue"],["red","blue"],"Änne"]"#;
    assert_eq!(run["output"], json!({ "result": expected }), "{run}");
    for (parameters, part) in [
        (json!({"one": "red"}), "asks for `parameters.age`"),
        (json!({"age": 1, "Shoe": 1}), "no field \"Shoe\""),
    ] {
        refused!(env, "run_workflow", {"workflow_id": typed.id, "parameters": parameters}, part);
    }
}
