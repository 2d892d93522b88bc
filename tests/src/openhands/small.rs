//! What answers and the server itself may cost.

use serde_json::{Value, json};

use super::{NAME, both, call, run_task};
use crate::harness::{FakeService, Response, Server};

/// 2,000 tokens.
const MAX_BYTES: usize = 8_000;

#[tokio::test]
async fn answers_stay_small_whatever_is_printed() {
    // Every byte of it costs six in JSON; the model's own words are long, too.
    let task = format!(
        "RUN: head -c 20000 /dev/zero | tr '\\\\0' '\\\\033'; for i in $(seq 400); do touch \
         \"a file with a long name, $i\"; done\nFINISH: {}",
        "\"quoted\"\\".repeat(3_000)
    );
    for client in both().await {
        let run = run_task(&client, &task).await;
        let id = json!({"task_id": run["task_id"]});
        assert!(
            run.to_string().len() < MAX_BYTES,
            "{}",
            run.to_string().len()
        );
        for tool in [
            "wait_task",
            "get_task_status",
            "get_task_result",
            "get_task_changes",
            "get_task_events",
        ] {
            let told = call(&client, tool, id.clone()).await.to_string();
            assert!(told.len() < MAX_BYTES, "{tool}: {}", told.len());
        }
    }
}

/// An agent server whose tasks are done at once: the real one takes minutes for so many.
fn done(target: &str) -> Value {
    let path = target.split('?').next().unwrap();
    match path.rsplit('/').next().unwrap() {
        "settings" => json!({"active_agent_profile_id": "a", "agent_settings": {}}),
        "home" => json!({"home": "/home/agent"}),
        "count" => json!(0),
        "search" => json!({"items": [], "next_page_id": null}),
        "execute_bash_command" => json!({"exit_code": 0, "stdout": ""}),
        "agent_final_response" => json!({"response": "long ".repeat(2_000)}),
        _ => json!({"execution_status": "finished"}),
    }
}

#[tokio::test]
async fn memory_is_flat_over_two_hundred_tasks() {
    let fake = FakeService::start(|request| match request.target.contains("/api/v1/") {
        true => Response::json(404, &json!({"detail": "Not Found"})),
        false => Response::json(200, &done(&request.target)),
    })
    .await;
    let server = Server::start(NAME, &[("OPENHANDS_URL", &fake.url)]).await;
    let task = json!({"task": "x".repeat(50_000)});
    for _ in 0..100 {
        server.call("run_task", task.clone()).await;
    }
    let before = server.memory_kib();
    for _ in 0..200 {
        let run = server.call("run_task", task.clone()).await;
        assert_eq!(run["status"], "finished", "{run}");
    }
    let after = server.memory_kib();
    assert!(after < before + 4 * 1024, "{before} KiB, then {after} KiB");
}
