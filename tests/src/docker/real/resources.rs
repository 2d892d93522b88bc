//! The resources and the prompts, and what they hold.

use crate::docker::prelude::*;

/// The content of a resource.
async fn read(server: &Server, uri: &str) -> Value {
    let result = server.result("resources/read", json!({"uri": uri})).await;
    assert_eq!(result["contents"][0]["uri"], uri);
    serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn container_resources_match_the_tools() {
    let Some(lab) = lab().await else { return };
    let command = ["sh", "-c", "echo hello; sleep 600"];
    let name = lab.run("web", &command, json!({})).await;
    let uri = format!("docker://containers/{name}");
    let shown = read(&lab.server, &uri).await;
    assert_has!(shown, {"name": name, "state": {"status": "running"}});
    // By its id as well.
    let id = shown["id"].as_str().unwrap();
    let same = read(&lab.server, &format!("docker://containers/{id}")).await;
    assert_eq!(same["name"], shown["name"]);
    wait_until("the log", async || {
        read(&lab, &format!("{uri}/logs")).await["log"] == "hello"
    })
    .await;
    let stats = read(&lab.server, &format!("{uri}/stats")).await;
    let memory = stats["containers"][0]["memory_bytes"].as_u64();
    assert!(memory > Some(0), "{stats}");
    let all = read(&lab.server, "docker://containers").await;
    assert!(!all["containers"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn other_resources_are_read_and_names_completed() {
    let Some(lab) = own_lab().await else { return };
    let base = lab.create("base", &["true"], json!({})).await;
    lab.image("image", &base).await;
    let images = read(&lab.server, "docker://images").await;
    assert_contains(&images, &lab.name("image"));
    let project = lab.name("shop");
    let labels = json!({"Labels": of_compose(&project, "web")});
    lab.create("web", &["true"], labels).await;
    let all = read(&lab.server, "docker://compose").await;
    assert!(all.to_string().contains(&project), "{all}");
    let one = read(&lab.server, &format!("docker://compose/{project}")).await;
    assert_eq!(one["projects"][0]["services"][0]["service"], "web", "{one}");
    let uri = json!({"uri": "docker://compose/no-such-project"});
    let error = lab.server.error("resources/read", uri).await;
    assert_eq!(error["data"]["kind"], "resource_not_found", "{error}");

    for uri in [
        "docker://containers/no-such-container",
        "docker://nothing",
        "docker://containers/a/b",
    ] {
        let params = json!({"uri": uri});
        let error = lab.server.error("resources/read", params).await;
        assert_eq!(error["data"]["kind"], "resource_not_found", "{error}");
    }

    let name = lab.create("complete-me", &["true"], json!({})).await;
    for end in ["", "/logs", "/stats"] {
        let params = json!({
            "ref": {"type": "ref/resource", "uri": format!("docker://containers/{{id}}{end}")},
            "argument": {"name": "id", "value": lab.name("comp")},
        });
        let result = lab.server.result("completion/complete", params).await;
        assert_eq!(result["completion"]["values"], json!([name]));
    }
}

#[tokio::test]
async fn hostile_uris_reach_no_engine() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
    let hostile = "..|../volumes/x|..%2Fvolumes%2Fx|%2e%2e%2fvolumes|a%3Fall=1|a%23|a%00|a%0a|\
        a%2e%2e%2f|%252e%252e|a b|-a|%ff|a/../../volumes|a?x=1";
    let mut uris = Vec::new();
    for name in hostile.split('|') {
        for end in ["", "/logs", "/stats"] {
            uris.push(format!("docker://containers/{name}{end}"));
        }
        uris.push(format!("docker://compose/{name}"));
        uris.push(format!("docker://images/{name}"));
    }
    for uri in &uris {
        let params = json!({"uri": uri});
        lab.server.error("resources/read", params).await;
        server.error("resources/read", json!({"uri": uri})).await;
    }
    let requests = proxy.requests();
    assert!(requests.is_empty(), "{requests:?}");
}

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
async fn prompts_contain_what_is_there() {
    let Some(lab) = own_lab().await else { return };
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

    let project = lab.name("shop");
    let labels = json!({"Labels": of_compose(&project, "web")});
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

    let name = lab.finish("old", &["true"], json!({})).await;
    let text = lab.prompt("clean_up_safely", json!({})).await;
    assert_contains(&text, &name);
    assert_contains(&text, "Exited (0)");
    assert!(text.len() < 16_000);
}
