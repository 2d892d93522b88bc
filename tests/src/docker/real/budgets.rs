//! Two hundred containers and a long log: answers are small and quick, and mention omitted rows.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::docker::lab::{Lab, lab};
use crate::harness::{assert_contains, real};

/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16_000;
/// Far longer than an answer takes, since a test machine is busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Lab {
    /// One request; the whole answer as it travels. The quickest of a few counts: the machine may be
    /// busy with something else.
    async fn weigh(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut took = Vec::new();
        for _ in 0..3 {
            let begin = Instant::now();
            let reply = self.server.post(body.to_string()).await;
            took.push(begin.elapsed());
            let bytes = reply.body.len();
            assert!(bytes <= MAX_ANSWER_BYTES, "{params}: {bytes} bytes");
            if took.iter().any(|took| *took < ANSWER_TIMEOUT) {
                return reply.json();
            }
        }
        panic!("{params}: {took:?}");
    }

    async fn weigh_tool(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.weigh("tools/call", params).await;
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }

    /// Resident memory of the server, in KiB.
    fn memory(&self) -> u64 {
        self.server.memory_kib()
    }
}

#[tokio::test]
async fn answers_with_200_containers_are_small() {
    let Some(host) = real::docker() else { return };
    let mut lab = Lab::at(host, &[("MCP_TOOLSETS", "all")]).await;
    lab.create_many(200).await;
    let listed = lab
        .weigh_tool("list_containers", json!({"all": true}))
        .await;
    let shown = listed["containers"].as_array().unwrap().len();
    assert!(shown >= 15, "{listed}");
    assert!(listed["omitted"].as_u64() >= Some(100), "{listed}");
    assert_contains(&listed["note"], "limit");
    for (tool, arguments) in [
        ("diagnose_host", json!({})),
        (
            "search_logs",
            json!({"patterns": ["x"], "name": lab.name("")}),
        ),
        ("list_events", json!({"limit": 1000})),
        ("get_container_stats", json!({})),
    ] {
        lab.weigh_tool(tool, arguments).await;
    }
    lab.weigh("resources/list", json!({})).await;
    lab.weigh("resources/read", json!({"uri": "docker://containers"}))
        .await;
    lab.weigh("prompts/get", json!({"name": "clean_up_safely"}))
        .await;
}

#[tokio::test]
async fn answers_with_a_long_log_are_small() {
    let Some(mut lab) = lab().await else { return };
    // A line longer than a frame, then thirty megabytes of short ones.
    let script = "head -c 60000 /dev/zero | tr '\\0' x; echo; \
                  yes 'a line of a log that goes on and on and on' | head -n 600000; \
                  echo the end; exit 1";
    let name = lab.finish("long", &["sh", "-c", script], json!({})).await;
    let asked = json!({"container": name});
    let before = lab.memory();
    let log = lab.weigh_tool("get_container_logs", asked.clone()).await;
    assert!(log["truncated"] == true && log["note"].is_string(), "{log}");
    assert!(log["log"].as_str().unwrap().ends_with("the end"), "{log}");
    lab.weigh_tool("diagnose_container", asked.clone()).await;
    lab.weigh_tool("get_container", asked).await;
    let uri = format!("docker://containers/{name}/logs");
    lab.weigh("resources/read", json!({"uri": uri})).await;
    let grown = lab.memory().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
}

impl Lab {
    async fn create_many(&mut self, count: usize) {
        let bodies: Vec<_> = (0..count)
            .map(|number| self.prepare(&format!("many-{number}")))
            .collect();
        let creating = bodies.into_iter().map(|(options, body)| {
            let docker = self.docker.clone();
            async move { docker.create_container(Some(options), body).await }
        });
        let created: Vec<_> = stream::iter(creating).buffer_unordered(8).collect().await;
        assert!(created.iter().all(Result::is_ok));
    }
}
