//! Two hundred containers and a long log: answers are small, and mention omitted rows.

use futures_util::{StreamExt as _, stream};

use crate::docker::prelude::*;

/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16_000;

impl Lab {
    /// One request; the whole answer as it travels.
    async fn weigh(&self, method: &str, params: Value) -> Value {
        let reply = post(self, method, params).await;
        let bytes = reply.body.len();
        assert!(
            bytes <= MAX_ANSWER_BYTES,
            "{method}: {bytes} bytes, {}",
            reply.body
        );
        reply.json()
    }

    async fn weigh_tool(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.weigh("tools/call", params).await;
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }
}

/// Calls that show many objects.
const LISTS: &str = r#"
list_containers | {"all": true, "limit": 500}
list_images | {"limit": 500}
list_networks | {}
list_volumes | {}
list_compose_projects | {}
list_compose_projects | {"project": "$PROJECT"}
get_container_logs | {"project": "$PROJECT", "tail": 2000}
prune | {"what": "containers"}
get_system_info | {"disk_usage": true}
diagnose_host | {}
list_events | {"limit": 1000}
get_container_stats | {"top": 100}
"#;

#[tokio::test]
async fn answers_with_200_containers_are_small() {
    let Some(lab) = lab().await else { return };
    lab.create_many(200).await;
    let listed = lab
        .weigh_tool("list_containers", json!({"all": true}))
        .await;
    let shown = listed["containers"].as_array().unwrap().len();
    assert!(shown >= 15, "{listed}");
    assert!(listed["omitted"].as_u64() >= Some(100), "{listed}");
    assert_contains(&listed["note"], "offset");
    let project = lab.name("shop");
    for (tool, arguments) in calls_of(LISTS, &[("$PROJECT", &project)]) {
        lab.weigh_tool(tool, arguments).await;
    }
    lab.assert_pages_are_all(
        "list_containers",
        "/containers",
        json!({"all": true, "name": lab.prefix}),
    )
    .await;
    let arguments = json!({"project": project});
    lab.assert_pages_are_all("list_compose_projects", "/projects/0/services", arguments)
        .await;
    lab.weigh("resources/list", json!({})).await;
    lab.weigh("resources/read", json!({"uri": "docker://containers"}))
        .await;
    lab.weigh("prompts/get", json!({"name": "clean_up_safely"}))
        .await;
    // The names of all: no list of rows, so the bound of all results holds.
    let mut down = json!({"project": project, "action": "down"});
    let refused = call(&lab, "compose_service", down.clone()).await;
    down["confirm"] = json!(asked_for(&refused));
    let reply = call(&lab, "compose_service", down).await;
    assert!(reply.to_string().len() <= MAX_ANSWER_BYTES, "{reply}");
    let down: Value = serde_json::from_str(reply["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_contains(&down["shortened"], "items of removed_containers");
}

impl Lab {
    /// Reads all pages of a list that begins with 200 rows.
    async fn assert_pages_are_all(&self, tool: &str, rows: &str, mut arguments: Value) {
        let mut seen = Vec::new();
        while seen.len() < 200 {
            arguments["offset"] = seen.len().into();
            let page = self.weigh_tool(tool, arguments.clone()).await;
            let rows = page.pointer(rows).unwrap().as_array().unwrap();
            assert!(!rows.is_empty(), "{page}");
            seen.extend(rows.iter().map(Value::to_string));
            let is_last = page["note"].is_null();
            assert_eq!(is_last, seen.len() == 200, "{tool}: {page}");
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 200, "{tool}");
    }
}

#[tokio::test]
async fn answers_with_a_long_log_are_small() {
    let Some(lab) = lab().await else { return };
    // A line longer than a frame, then thirty megabytes of short ones.
    let script = "head -c 60000 /dev/zero | tr '\\0' x; echo; \
                  yes 'a line of a log that goes on and on and on' | head -n 600000; \
                  echo the end; exit 1";
    let name = lab.finish("long", &["sh", "-c", script], json!({})).await;
    let asked = json!({"container": name});
    let before = lab.server.memory_kib();
    let log = lab.weigh_tool("get_container_logs", asked.clone()).await;
    assert!(log["truncated"] == true && log["note"].is_string(), "{log}");
    assert!(log["log"].as_str().unwrap().ends_with("the end"), "{log}");
    lab.weigh_tool("diagnose_container", asked.clone()).await;
    lab.weigh_tool("get_container", asked).await;
    let uri = format!("docker://containers/{name}/logs");
    lab.weigh("resources/read", json!({"uri": uri})).await;
    let grown = lab.server.memory_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
}

impl Lab {
    async fn create_many(&self, count: usize) {
        let bodies: Vec<_> = (0..count)
            .map(|number| {
                let labels = of_compose(&self.name("shop"), &format!("service-{number}"));
                let more = json!({"Cmd": ["true"], "Labels": labels});
                self.prepare(&format!("many-with-a-long-name-{number}"), more)
            })
            .collect();
        let creating = bodies.into_iter().map(|(options, body)| {
            let docker = self.docker.clone();
            async move { docker.create_container(Some(options), body).await }
        });
        let created: Vec<_> = stream::iter(creating).buffer_unordered(8).collect().await;
        assert!(created.iter().all(Result::is_ok));
    }
}
