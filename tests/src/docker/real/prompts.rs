//! The prompts, with what the engine says now in them.

use serde_json::{Value, json};

use crate::docker::lab::{Lab, lab};
use crate::harness::assert_contains;

impl Lab {
    async fn prompt(&self, name: &str, arguments: Value) -> String {
        let params = json!({"name": name, "arguments": arguments});
        let result = self.server.result("prompts/get", params).await;
        let text = &result["messages"][0]["content"]["text"];
        text.as_str().unwrap().to_owned()
    }

    async fn completions(&self, reference: Value, argument: &str, value: &str) -> Value {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let result = self.server.result("completion/complete", params).await;
        result["completion"]["values"].clone()
    }
}

#[tokio::test]
async fn troubleshoot_prompt_contains_the_diagnosis() {
    let Some(mut lab) = lab().await else { return };
    let command = ["sh", "-c", "exit 7"];
    let name = lab.finish("broken", &command, json!({})).await;
    let arguments = json!({"container": name});
    let text = lab.prompt("troubleshoot_container", arguments).await;
    assert_contains(&text, &name);
    assert_contains(&text, "exit code 7");
    let reference = json!({"type": "ref/prompt", "name": "troubleshoot_container"});
    let values = lab.completions(reference, "container", &lab.name("")).await;
    assert_eq!(values, json!([name]));
    let params = json!({"name": "troubleshoot_container", "arguments": {"container": "../x"}});
    lab.server.error("prompts/get", params).await;
}

#[tokio::test]
async fn review_prompt_contains_the_project() {
    let Some(mut lab) = lab().await else { return };
    let project = lab.name("shop");
    let labels = json!({"Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": project, "com.docker.compose.service": "web"}});
    let name = lab.create("web", &["true"], labels).await;
    let arguments = json!({"project": project});
    let text = lab.prompt("review_compose_project", arguments).await;
    assert_contains(&text, &format!("service web: container `{name}`"));
    let reference = json!({"type": "ref/prompt", "name": "review_compose_project"});
    let values = lab.completions(reference, "project", &project[..12]).await;
    assert!(values.as_array().unwrap().contains(&json!(project)));
    let params = json!({"name": "review_compose_project", "arguments": {"project": "nope"}});
    let error = lab.server.error("prompts/get", params).await;
    assert!(error.to_string().contains(&project), "{error}");
}

#[tokio::test]
async fn clean_up_prompt_lists_stopped_containers() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.finish("old", &["true"], json!({})).await;
    let text = lab.prompt("clean_up_safely", json!({})).await;
    assert_contains(&text, &name);
    assert_contains(&text, "Exited (0)");
    assert!(text.len() < 16_000);
}
