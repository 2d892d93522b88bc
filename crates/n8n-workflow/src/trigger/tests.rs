//! Triggers with their URLs, fields and inputs.

use http::Method;
use serde_json::json;

use super::*;

fn workflow(kind: &str, parameters: Value) -> Workflow {
    let workflow = json!({
        "id": "w", "name": "W", "active": true, "settings": {"availableInMCP": true},
        "nodes": [{"name": "T", "type": kind, "typeVersion": 2.2, "webhookId": "wid", "parameters": parameters}],
    });
    serde_json::from_value(workflow).unwrap()
}

#[test]
fn webhook_has_method_and_path() {
    let fixed = json!({"path": "/a/b/", "httpMethod": "POST", "responseMode": "lastNode"});
    let with_parameter = json!({"path": "a/:id", "httpMethod": ["GET", "POST"]});
    let expression = json!({"path": "a", "httpMethod": "={{ 1 }}"});
    for (parameters, expected) in [
        (json!({"path": "a"}), Ok((Method::GET, "a", false))),
        (fixed, Ok((Method::POST, "a/b", true))),
        (with_parameter, Ok((Method::POST, "wid/a/:id", false))),
        (json!({}), Ok((Method::GET, "wid", false))),
        (json!({"path": "={{ 1 }}"}), Err("path")),
        (expression, Err("method")),
    ] {
        let workflow = workflow("n8n-nodes-base.webhook", parameters);
        let trigger = &triggers(&workflow)[0];
        match (trigger.webhook(), expected) {
            (Ok(found), Ok((method, path, at_end))) => {
                let found = (found.method, found.path.join("/"), trigger.replies_at_end());
                assert_eq!(found, (method, path.to_owned(), at_end));
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn chats_and_forms_have_urls() {
    let chat = workflow("x.chatTrigger", json!({"public": true}));
    assert_eq!(triggers(&chat)[0].chat_id(), Ok("wid"));

    let form = workflow(
        "x.formTrigger",
        json!({"options": {"path": "ask/me"}, "formFields": {"values": [
            {"fieldLabel": "Your name", "requiredField": true},
            {"fieldType": "html", "html": "<b>"},
            {"fieldType": "hiddenField", "fieldName": "source"},
            {"fieldLabel": "Colours", "fieldType": "checkbox", "fieldOptions": {"values": [{"option": "red"}]}},
        ]}}),
    );
    let form = &triggers(&form)[0];
    assert_eq!(form.form_path().unwrap(), ["ask", "me"]);
    let field = |name: &str, index, required, kind| FormField {
        name: name.to_owned(),
        index,
        required,
        kind,
    };
    let colours = FormFieldKind::Choices(vec!["red".into()]);
    let expected = [
        field("Your name", 0, true, FormFieldKind::Text),
        field("source", 2, false, FormFieldKind::Text),
        field("Colours", 3, false, colours),
    ];
    assert_eq!(form.fields(), Some(expected.into()));
}

#[test]
fn fields_that_an_expression_computes_are_not_known() {
    let form = |json: &str| {
        let parameters = json!({"defineForm": "json", "jsonOutput": json});
        let workflow = workflow("x.formTrigger", parameters);
        let trigger = &triggers(&workflow)[0];
        (trigger.fields(), parameters_of(trigger))
    };
    for computed in ["={{ $json.fields }}", r#"=[{"fieldLabel": {{ 1 }}}]"#] {
        let (fields, schema) = form(computed);
        assert_eq!(fields, None, "{computed}");
        let description = schema["description"].as_str().unwrap();
        assert!(description.contains("`field-0`"), "{description}");
    }
    let (fields, schema) = form(r#"=[{"fieldLabel": "Name"}]"#);
    assert_eq!(fields.unwrap()[0].name, "Name");
    assert!(schema.get("description").is_none());
    assert_eq!(form("").0, Some(Vec::new()));
}

#[test]
fn sub_workflow_declares_its_inputs() {
    let rows = json!({"values": [{"name": "n", "type": "number"}, {"name": "s"}, {"name": "x", "type": "any"}]});
    let declared = json!({"workflowInputs": rows});
    let example = json!({"inputSource": "jsonExample", "jsonExample": "{\"a\": [1], \"b\": true}"});
    let passthrough = json!({"inputSource": "passthrough", "workflowInputs": rows});
    for (parameters, expected) in [
        (declared, &[("n", "number"), ("s", "string"), ("x", "")][..]),
        (example, &[("a", "array"), ("b", "boolean")]),
        (passthrough, &[]),
    ] {
        let workflow = workflow("x.executeWorkflowTrigger", parameters);
        let inputs = triggers(&workflow)[0].inputs();
        let inputs: Vec<_> = inputs.iter().map(|(name, kind)| (&**name, *kind)).collect();
        assert_eq!(inputs, expected);
    }
}
