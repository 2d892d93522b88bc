//! Tools that read: events, changes, files, lists.

use serde_json::{Value, json};

use super::resources::read;
use super::{
    agent_server, assert_error, both_transports, call, call_with_id, client, client_with, run_task,
    tool_error,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, assert_ends_with, assert_lacks, assert_starts_with};

#[tokio::test]
async fn events_are_single_lines_without_the_system_prompt() {
    for client in both_transports().await {
        let task = "RUN: echo one; (exit 3)\nWRITE: /nowhere/x text\nFINISH: end";
        let run = run_task(&client, task).await;
        let id = &run["task_id"];
        let events = call_with_id(&client, "get_task_events", id).await;
        let lines: Vec<(String, String)> = rows(&events);
        assert_eq!(lines[0].0, "message");
        assert_starts_with(&lines[0].1, "user: RUN: echo one");
        let has = |kind: &str, text: &str| lines.iter().any(|(k, t)| k == kind && t.contains(text));
        assert!(has("action", "terminal echo one; (exit 3)"), "{lines:?}");
        assert!(has("output", "exit 3: one"), "{lines:?}");
        assert!(has("action", "file_editor create x"), "{lines:?}");
        assert!(has("action", "finish"), "{lines:?}");
        let text = events.to_string();
        assert_lacks(&text, "You are");
        assert!(text.len() < 8_000);
    }
}

fn rows(events: &Value) -> Vec<(String, String)> {
    let rows = events["events"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["kind"]), text(&row["text"])))
        .collect()
}

#[tokio::test]
async fn pages_of_events_do_not_overlap() {
    let Some(client) = client().await else { return };
    let task = "RUN: echo 1\nRUN: echo 2\nRUN: echo 3\nRUN: echo 4";
    let run = run_task(&client, task).await;
    let id = &run["task_id"];
    let whole = call_with_id(&client, "get_task_events", id).await;
    let mut parts = Vec::new();
    let mut since = Value::Null;
    loop {
        let mut ask = json!({"task_id": id, "limit": 2});
        if !since.is_null() {
            ask["since"] = since.clone();
        }
        let part = call(&client, "get_task_events", ask).await;
        assert!(part["events"].as_array().unwrap().len() <= 2);
        parts.extend(rows(&part));
        since = part["next_since"].clone();
        if part["more"] == false {
            break;
        }
    }
    assert_eq!(parts, rows(&whole));
    // Nothing is new.
    let later = call!(client, "get_task_events", {"task_id": id, "since": since});
    assert_has!(later, {"events": [], "next_since": since});
    let outputs = rows(&call!(client, "get_task_events", {"task_id": id, "kinds": ["output"]}));
    assert!(outputs.iter().all(|(kind, _)| kind == "output"));
    assert_eq!(outputs.len(), 5);
    assert_error!(client, "get_task_events", {"task_id": id, "since": "yesterday"}, "next_since");
}

#[tokio::test]
async fn model_error_event_hides_the_text_of_the_provider() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "HTTP: 500").await;
    let errors = call!(client, "get_task_events", {"task_id": run["task_id"], "kinds": ["error"]});
    assert_eq!(errors["events"][0]["text"], "LLMServiceUnavailableError");
    assert_lacks(&errors.to_string(), "scripted failure");
}

#[tokio::test]
async fn long_diff_is_truncated_and_says_so() {
    let Some(client) = client().await else { return };
    let task = "RUN: seq 1 5000 > big; echo x > small; for i in $(seq 300); do echo $i > f$i; done";
    let run = run_task(&client, task).await;
    let id = &run["task_id"];
    let changed = run["changed_files"].as_array().unwrap();
    assert_starts_with(changed.last().unwrap(), "… and ");
    let all = call_with_id(&client, "get_task_changes", id).await;
    assert!(all.to_string().len() < 8_000, "{}", all.to_string().len());
    assert_eq!(all["files"], 302);
    let page = call!(client, "get_task_changes", {"task_id": id, "skip_files": 300});
    assert_eq!(page["changed_files"].as_array().unwrap().len(), 2, "{page}");
    let (mut whole, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let part = call!(client, "get_task_changes", {"task_id": id, "offset": offset,
            "max_bytes": 30_000});
        whole += part["diff"].as_str().unwrap();
        assert_eq!(part["size"], all["size"]);
        offset = part["next_offset"].clone();
    }
    assert_eq!(whole.len(), all["size"]);
    assert_ends_with(&whole, "+x\n");
    let small = call!(client, "get_task_changes", {"task_id": id, "file": "small"});
    assert_ends_with(&small["diff"], "@@ -0,0 +1 @@\n+x\n");
    let more = call!(client, "get_task_changes", {"task_id": id, "file": "big",
        "max_bytes": 60_000});
    assert_ends_with(&more["diff"], "+5000\n");
}

#[tokio::test]
async fn commits_of_the_agent_are_changes() {
    let Some(client) = client().await else { return };
    let task = "RUN: echo 1 > a; git add a; git -c user.name=t -c user.email=t@h commit -qm a";
    let run = run_task(&client, task).await;
    assert_eq!(run["changed_files"], json!(["A a"]), "{run}");
}

#[tokio::test]
async fn file_is_read_in_parts_of_whole_characters() {
    for client in both_transports().await {
        let text = "äöü€".repeat(50);
        let context = json!({"file": "dir/t x.txt", "content": text});
        let run = call!(client, "run_task", {"task": "SAY: x", "context": context});
        let mut read = String::new();
        let mut offset = json!(0);
        while !offset.is_null() {
            let part = call!(client, "get_task_file", {"task_id": run["task_id"],
                "file": "dir/t x.txt", "max_bytes": 100, "offset": offset});
            assert_eq!(part["size"], text.len());
            read += part["text"].as_str().unwrap();
            offset = part["next_offset"].clone();
        }
        assert_eq!(read, text);
    }
}

#[tokio::test]
async fn unreadable_files_are_explained() {
    let Some(client) = client().await else { return };
    let task = "RUN: ln -s /etc/passwd link; touch empty; mkdir d";
    let run = run_task(&client, task).await;
    let ask = |file: &str| json!({"task_id": run["task_id"], "file": file});
    for (file, why) in [
        ("link", "leads out of the task's directory"),
        ("none", "no such file"),
        ("d", "no such file"),
        ("../x", "the file name must not have"),
        ("/etc/passwd", "must be relative"),
    ] {
        let refused = tool_error(&client, "get_task_file", ask(file)).await;
        assert_contains(&refused, why);
        assert_lacks(&refused, "root:");
    }
    let empty = call(&client, "get_task_file", ask("empty")).await;
    assert_has!(empty, {"text": "", "size": 0});
}

#[tokio::test]
async fn tasks_are_listed_by_page_and_status() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: listed\nwith words").await;
    let mut cursor = Value::Null;
    let mut found = Value::Null;
    // Other tests create tasks in the meantime.
    for _ in 0..50 {
        let mut ask = json!({"limit": 2, "status": "finished"});
        if !cursor.is_null() {
            ask["cursor"] = cursor;
        }
        let page = call(&client, "list_tasks", ask).await;
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2 && tasks.iter().all(|task| task["status"] == "finished"));
        if let Some(task) = tasks.iter().find(|task| task["task_id"] == run["task_id"]) {
            found = task.clone();
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(found["task"], "SAY: listed with words");
    let full = call(&client, "list_tasks", json!({})).await;
    assert!(full.to_string().len() < 8_000);
    let unknown = json!({"status": "odd"});
    let unknown = client.call_tool("list_tasks", &unknown).await;
    assert!(unknown.is_err() || unknown.unwrap().is_error);
}

#[tokio::test]
async fn keys_of_models_are_not_shown() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let run = run_task(&client, "RUN: echo x").await;
    let id = &run["task_id"];
    let mut shown = String::new();
    for (tool, arguments) in [
        ("get_task_events", json!({"task_id": id, "limit": 90})),
        ("get_task_result", json!({"task_id": id})),
        ("list_tasks", json!({"limit": 50})),
        ("get_agent", json!({"agent_id": "default"})),
    ] {
        shown += &call(&client, tool, arguments).await.to_string();
    }
    let settings = agent_server(&real, "GET", "/api/settings", Value::Null).await;
    let url = settings["agent_settings"]["llm"]["base_url"].as_str();
    for secret in [&*real.api_key, "not-a-key", "api_key", url.unwrap()] {
        assert_lacks(&shown, secret);
    }
}

#[tokio::test]
async fn secrets_in_what_an_agent_writes_are_redacted() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    // Assembled here, so that no secret scanner reports it.
    let secret = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJKLMNOP");
    let text = format!("before {secret} after");
    let task = format!("RUN: echo '{text}' | tee a\nFINISH: {text}");
    let run = run_task(&client, &task).await;
    let id = &run["task_id"];
    let agent =
        json!({"config_file": format!("agent-{}", id.as_str().unwrap()), "instructions": text});
    let agent = call(&client, "create_agent", agent).await["agent_id"].clone();
    let mut shown = vec![("run_task".to_owned(), run.to_string())];
    for (tool, arguments) in [
        ("get_task_result", json!({"task_id": id})),
        ("get_task_result", json!({"task_id": id, "part": "output"})),
        ("wait_task", json!({"task_id": id})),
        ("wait_task", json!({"task_ids": [id]})),
        ("get_task_changes", json!({"task_id": id})),
        ("get_task_patch", json!({"task_id": id})),
        ("get_task_events", json!({"task_id": id})),
        ("get_task_file", json!({"task_id": id, "file": "a"})),
        ("list_tasks", json!({"limit": 50})),
        ("get_agent", json!({"agent_id": agent})),
    ] {
        shown.push((
            tool.to_owned(),
            call(&client, tool, arguments).await.to_string(),
        ));
    }
    for end in ["", "/events", "/diff"] {
        let uri = format!("openhands://tasks/{}{end}", id.as_str().unwrap());
        let contents = read(&client, &uri).await;
        shown.push((uri, contents));
    }
    call!(client, "delete_agent", {"agent_id": agent, "confirm": agent});
    for (name, answer) in shown {
        assert!(answer.contains("before *** after"), "{name}: {answer}");
        assert_lacks(&answer, &secret[4..]);
    }
}

#[tokio::test]
async fn read_only_offers_only_tools_that_read() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[("MCP_READ_ONLY", "true")]).await;
    let tools = client.list_tools().await.unwrap().into_iter();
    let mut names: Vec<String> = tools.map(|tool| tool.name).collect();
    names.sort();
    let expected = "get_agent get_task_changes get_task_events get_task_file \
                    get_task_patch get_task_result get_task_status \
                    get_usage list_agent_profiles list_tasks wait_task";
    assert_eq!(names.join(" "), expected);
}

#[tokio::test]
async fn long_answers_and_outputs_are_had_whole_in_parts() {
    let Some(client) = client().await else { return };
    let said = format!("{}end", "lông é\u{1f980} ".repeat(1_000));
    let said = &said[..said.floor_char_boundary(13_029)];
    let run = run_task(&client, &format!("RUN: seq 1 5000\nFINISH: {said}")).await;
    let printed: Vec<String> = (1..=5_000).map(|line| line.to_string()).collect();
    let offset = run["next_offset"].as_u64().unwrap();
    let mark = format!("get_task_result with offset {offset} has the rest");
    assert_contains(&run["result"], &mark);
    assert_contains(
        &run["last_output"],
        "get_task_result with part output has all",
    );
    for (part, field, expected) in [
        ("result", "result", said.to_owned()),
        ("output", "last_output", printed.join("\n")),
    ] {
        let (mut whole, mut next) = (String::new(), json!(0));
        while !next.is_null() {
            let rest = json!({"task_id": run["task_id"], "part": part, "offset": next});
            let rest = call(&client, "get_task_result", rest).await;
            whole.push_str(rest[field].as_str().unwrap());
            next = rest["next_offset"].clone();
        }
        assert_eq!(whole.trim_end().replace('\r', ""), expected);
    }
}
