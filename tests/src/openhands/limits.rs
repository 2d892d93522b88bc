//! Limits of the size of answers and of the memory of the server.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both_transports, call_with_id, run_task};
use crate::harness::{FakeService, Response, Server};

/// About 2,000 tokens.
const MAX_BYTES: usize = 8_000;

#[tokio::test]
async fn answers_stay_small_with_any_output() {
    // Each byte of the output takes six bytes in JSON. The message of the model is long, too.
    let task = format!(
        "RUN: head -c 20000 /dev/zero | tr '\\\\0' '\\\\033'; for i in $(seq 400); do touch \
         \"a file with a long name, $i\"; done\nFINISH: {}",
        "\"quoted\"\\".repeat(3_000)
    );
    for client in both_transports().await {
        let run = run_task(&client, &task).await;
        let length = run.to_string().len();
        assert!(length < MAX_BYTES, "{length}");
        for tool in
            "wait_task get_task_status get_task_result get_task_changes get_task_events".split(' ')
        {
            let length = call_with_id(&client, tool, &run["task_id"])
                .await
                .to_string()
                .len();
            assert!(length < MAX_BYTES, "{tool}: {length}");
        }
    }
}

/// The response of a fake agent server whose tasks finish at once: the real one would take minutes.
fn response_body(target: &str) -> Value {
    let path = target.split('?').next().unwrap();
    match path.rsplit('/').next().unwrap() {
        "settings" => json!({"active_agent_profile_id": "a", "agent_settings": {}}),
        "home" => json!({"home": "/home/agent"}),
        "count" => json!(0),
        "search" => json!({"items": [], "next_page_id": null}),
        "execute_bash_command" => json!({"exit_code": 0, "stdout": ""}),
        "agent_final_response" => json!({"response": "long ".repeat(2_000)}),
        _ => json!({"id": Uuid::nil().to_string(), "execution_status": "finished"}),
    }
}

#[tokio::test]
async fn memory_does_not_grow_over_two_hundred_tasks() {
    let fake = FakeService::start(|request| match request.target.contains("/api/v1/") {
        true => Response::json(404, &json!({"detail": "Not Found"})),
        false => Response::json(200, &response_body(&request.target)),
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
