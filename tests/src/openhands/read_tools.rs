//! Tools that read: events, changes, files, lists, and the outcome of a finished task.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::changes::decoded;
use super::resources::read;
use super::tools::Gate;
use super::{
    agent_server, assert_error, call, call_with_id, client, client_with, joined, parts, run_task,
    tool_error, wait_for_status, with,
};
use crate::harness::real::openhands;
use crate::harness::{
    assert_contains, assert_ends_with, assert_lacks, assert_starts_with, eventually,
};

fn rows(events: &Value) -> Vec<(String, String)> {
    let rows = events["events"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["kind"]), text(&row["text"])))
        .collect()
}

#[tokio::test]
async fn events_are_single_lines_in_pages_that_do_not_overlap() {
    let Some(client) = client().await else { return };
    let task = "RUN: echo one; (exit 3)\nWRITE: /nowhere/x text\nFINISH: end";
    let run = run_task(&client, task).await;
    assert_eq!(run["exit_code"], 3, "{run}");
    let id = &run["task_id"];
    let events = call_with_id(&client, "get_task_events", id).await;
    let lines = rows(&events);
    assert_eq!(lines[0].0, "message");
    assert_starts_with(&lines[0].1, "user: RUN: echo one");
    let has = |kind: &str, text: &str| lines.iter().any(|(k, t)| k == kind && t.contains(text));
    assert!(has("action", "terminal echo one; (exit 3)"), "{lines:?}");
    assert!(has("output", "exit 3: one"), "{lines:?}");
    assert!(has("action", "file_editor create x"), "{lines:?}");
    assert!(has("action", "finish"), "{lines:?}");
    // The system prompt is left out.
    let text = events.to_string();
    assert_lacks(&text, "You are");
    assert!(text.len() < 8_000);
    let (mut parts, mut ask) = (Vec::new(), json!({"task_id": id, "limit": 2}));
    loop {
        let part = call(&client, "get_task_events", ask.clone()).await;
        assert!(part["events"].as_array().unwrap().len() <= 2);
        parts.extend(rows(&part));
        ask["since"] = part["next_since"].clone();
        if part["more"] == false {
            break;
        }
    }
    assert_eq!(parts, lines);
    // Nothing is new.
    let later = call(&client, "get_task_events", ask.clone()).await;
    assert_has!(later, {"events": [], "next_since": ask["since"]});
    let outputs = call!(client, "get_task_events", {"task_id": id, "kinds": ["output"]});
    let is_output = |row: &&(String, String)| row.0 == "output";
    let expected: Vec<_> = lines.iter().filter(is_output).cloned().collect();
    assert_eq!(rows(&outputs), expected);
    let wrong = json!({"task_id": id, "since": "yesterday"});
    assert_error(&client, "get_task_events", wrong, "next_since").await;
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
    let ask = json!({"task_id": id, "max_bytes": 30_000});
    let parts = parts(&client, "get_task_changes", ask, "offset").await;
    assert!(parts.iter().all(|part| part["size"] == all["size"]));
    let whole = joined(&parts, "diff");
    assert_eq!(whole.len(), all["size"]);
    assert_ends_with(&whole, "+x\n");
    let small = call!(client, "get_task_changes", {"task_id": id, "file": "small"});
    assert_ends_with(&small["diff"], "@@ -0,0 +1 @@\n+x\n");
    let more = call!(client, "get_task_changes", {"task_id": id, "file": "big",
        "max_bytes": 60_000});
    assert_ends_with(&more["diff"], "+5000\n");
}

#[tokio::test]
async fn files_come_and_go_byte_for_byte_in_parts() {
    let bytes: Vec<u8> = (0..5_000_u32).map(|n| (n * 7 % 256) as u8).collect();
    let text = "äöü€".repeat(50);
    let Some(client) = client().await else { return };
    let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
    let context = json!({"files": [
        {"file": "dir/t x.txt", "content": text},
        {"file": "in/x.bin", "content": encoded(&bytes), "encoding": "base64"},
        {"file": "latin.txt", "content": encoded(b"caf\xe9"), "encoding": "base64"},
    ]});
    let task = "RUN: cp in/x.bin y.bin; ln -s /etc/passwd link; touch empty; mkdir d";
    let run = call!(client, "run_task", {"task": task, "context": context});
    assert_eq!(
        run["changed_files"],
        json!(["A empty", "A link", "A y.bin"]),
        "{run}"
    );
    let ask = |file: &str| json!({"task_id": run["task_id"], "file": file});
    for (file, part_bytes, expected) in [
        ("dir/t x.txt", 100, text.as_bytes()),
        ("y.bin", 1_000, &bytes),
        ("latin.txt", 1_000, b"caf\xe9"),
        ("empty", 1_000, b""),
    ] {
        let ask = with(ask(file), json!({"max_bytes": part_bytes}));
        let parts = parts(&client, "get_task_file", ask, "offset").await;
        assert!(parts.iter().all(|part| part["size"] == expected.len()));
        let read = parts.iter().flat_map(|part| match part["text"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => decoded(part["base64"].as_str().unwrap()),
        });
        assert_eq!(read.collect::<Vec<u8>>(), expected, "{file}");
    }
    for (file, offset, expected) in [
        (
            "dir/t x.txt",
            10_000,
            json!({"text": "", "size": text.len(), "next_offset": null}),
        ),
        (
            "latin.txt",
            3,
            json!({"base64": "6Q==", "next_offset": null}),
        ),
    ] {
        let ask = with(ask(file), json!({"offset": offset}));
        let rest = call(&client, "get_task_file", ask).await;
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(rest[name], *value, "{rest}");
        }
    }
    for (file, why) in [
        ("link", "leads out of the task's directory"),
        ("none", "no such file"),
        ("d", "`file` is a directory"),
        ("../x", "the file name must not have"),
        ("/etc/passwd", "must be relative"),
    ] {
        let refused = tool_error(&client, "get_task_file", ask(file)).await;
        assert_contains(&refused, why);
        assert_lacks(&refused, "root:");
    }
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
        let page = client.call_tool("list_tasks", &ask).await.unwrap();
        // They delete tasks, too.
        if page.is_error && page.text().contains("its task is gone") {
            cursor = Value::Null;
            continue;
        }
        let page: Value = serde_json::from_str(&page.text()).unwrap();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2 && tasks.iter().all(|task| task["status"] == "finished"));
        if let Some(task) = tasks.iter().find(|task| task["task_id"] == run["task_id"]) {
            found = task.clone();
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(found["task"], "SAY: listed with words");
    let gone = json!({"cursor": uuid::Uuid::new_v4().simple().to_string()});
    assert_error(&client, "list_tasks", gone, "its task is gone").await;
    let full = call(&client, "list_tasks", json!({})).await;
    assert!(full.to_string().len() < 8_000);
    let unknown = json!({"status": "odd"});
    let unknown = client.call_tool("list_tasks", &unknown).await;
    assert!(unknown.is_err() || unknown.unwrap().is_error);
}

#[tokio::test]
async fn secrets_in_what_an_agent_writes_are_redacted() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    // Assembled here, so that no secret scanner reports it.
    let secret = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJKLMNOP");
    let text = format!("before {secret} after");
    // In a title that is cut.
    run_task(&client, &format!("SAY: {} {secret}", "x".repeat(60))).await;
    let task = format!(
        "RUN: {{ yes | head -c 5984; echo '{text}'; }} > b; echo '{text}' | tee a\nFINISH: {text}"
    );
    let run = run_task(&client, &task).await;
    let id = &run["task_id"];
    let part = call!(client, "get_task_file", {"task_id": id, "file": "b"});
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
        // It lies across the end of the first part.
        (
            "get_task_file",
            json!({"task_id": id, "file": "b", "offset": part["next_offset"]}),
        ),
        ("list_tasks", json!({"limit": 50})),
    ] {
        shown.push((
            tool.to_owned(),
            call(&client, tool, arguments).await.to_string(),
        ));
    }
    // Parts that begin within it.
    let changes = call!(client, "get_task_changes", {"task_id": id});
    let patch = call!(client, "get_task_patch", {"task_id": id, "max_bytes": 500});
    let content = patch["next_cursor"].as_str().unwrap().split(':').next();
    let within = |text: &Value| text.as_str().unwrap().find("***").unwrap() + 8;
    let cursor = format!("{}:{}", content.unwrap(), within(&patch["patch"]));
    for (tool, arguments) in [
        (
            "get_task_file",
            json!({"task_id": id, "file": "a", "offset": 15}),
        ),
        (
            "get_task_changes",
            json!({"task_id": id, "offset": within(&changes["diff"])}),
        ),
        ("get_task_patch", json!({"task_id": id, "cursor": cursor})),
    ] {
        let part = call(&client, tool, arguments).await.to_string();
        assert!(part.contains("*** after"), "{tool}: {part}");
        assert_lacks(&part, &secret[16..24]);
    }
    for end in ["", "/events", "/diff"] {
        let uri = format!("openhands://tasks/{}{end}", id.as_str().unwrap());
        let contents = read(&client, &uri).await;
        shown.push((uri, contents));
    }
    for (name, answer) in &shown {
        assert!(answer.contains("before *** after"), "{name}: {answer}");
        assert_lacks(answer, &secret[4..12]);
    }
    let profiles = call!(client, "list_agent_profiles", {}).to_string();
    let settings = agent_server(&real, "GET", "/api/settings", Value::Null).await;
    let url = settings["agent_settings"]["llm"]["base_url"].as_str();
    for (_, answer) in shown.iter().chain(&[(String::new(), profiles)]) {
        for secret in [&*real.api_key, "not-a-key", "api_key", url.unwrap()] {
            assert_lacks(answer, secret);
        }
    }
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
        let ask = json!({"task_id": run["task_id"], "part": part, "offset": 0});
        let whole = joined(
            &parts(&client, "get_task_result", ask, "offset").await,
            field,
        );
        assert_eq!(whole.trim_end().replace('\r', ""), expected);
    }
}

#[tokio::test]
async fn files_that_clash_are_refused_by_name() {
    let Some(client) = client().await else { return };
    let files = json!([{"file": "a", "content": "x"}, {"file": "a/b.txt", "content": "y"}]);
    assert_error!(client, "run_task", {"task": "SAY: x", "context": {"files": files}},
        "context has a twice");
    let name = format!("clash-{}", uuid::Uuid::new_v4());
    call!(client, "run_task", {"task": "RUN: mkdir d", "workspace": name});
    let context = json!({"file": "d", "content": "x"});
    assert_error!(client, "run_task", {"task": "SAY: x", "workspace": name, "context": context},
        "d cannot be written");
    let context = json!({"file": "d", "content": "?", "encoding": "base64"});
    assert_error!(client, "run_task", {"task": "SAY: x", "context": context}, "not valid base64");
}

#[tokio::test]
async fn verify_command_tells_whether_the_work_is_right() {
    let Some(client) = client().await else { return };
    let run =
        call!(client, "run_task", {"task": "RUN: echo made > f", "verify": "cat f; pwd | wc -l"});
    assert_has!(run, {"verified": true, "verify_exit_code": 0, "verify_output": "made\n1"});
    // The outcome is kept, and the command is not run again.
    let again = call!(client, "get_task_result", {"task_id": run["task_id"]});
    assert_eq!(again["verify_output"], run["verify_output"]);
    let task = json!({"task": "FINISH: all tests pass", "verify": "echo it\\'s wrong >&2; exit 3"});
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "finished", "verified": false, "verify_exit_code": 3,
        "verify_output": "it's wrong"});
    let count = "echo x >> count; wc -l < count";
    let run = call!(client, "run_task", {"task": "RUN: echo x > count", "verify": count});
    let id = &run["task_id"];
    assert_eq!(run["verify_output"], "2");
    let again = call!(client, "wait_task", {"task_id": id});
    assert_eq!(again["verify_output"], "2");
    // More work is checked again.
    call!(client, "send_message", {"task_id": id, "message": "RUN: rm count"});
    wait_for_status(&client, id, "finished").await;
    let again = call!(client, "wait_task", {"task_id": id});
    assert_eq!(again["verify_output"], "1", "{again}");
    // Readers at the same time run it once, and a server that only reads does not.
    let gate = Gate::new();
    let task = format!("RUN: {}; echo x > count", gate.pass());
    let task = json!({"task": task, "verify": count, "wait_seconds": 0});
    let id = &call(&client, "run_task", task).await["task_id"];
    // The call that starts it would run the command after its end.
    gate.open();
    wait_for_status(&client, id, "finished").await;
    let reader = client_with(&openhands().unwrap(), &[("MCP_READ_ONLY", "true")]).await;
    let mut names: Vec<_> = reader.list_tools().await.unwrap();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<&str> = names.iter().map(|tool| &*tool.name).collect();
    let expected = "get_task_changes get_task_events get_task_file \
                    get_task_patch get_task_result get_task_status \
                    get_usage list_agent_profiles list_tasks wait_task";
    assert_eq!(names.join(" "), expected);
    let read = call!(reader, "get_task_result", {"task_id": id});
    assert_has!(read, {"verified": null});
    assert_contains(&read["warnings"], "read-only");
    let again = async || {
        // On a busy machine the command may take longer than the call.
        let read = async || {
            let read = call!(client, "get_task_result", {"task_id": id});
            Some(read).filter(|read| read["verify_output"].is_string())
        };
        eventually("the output", read).await
    };
    let (one, other) = tokio::join!(again(), again());
    assert_eq!(
        (&one["verify_output"], &other["verify_output"]),
        (&json!("2"), &json!("2"))
    );
    let long = json!({"task": "SAY: x", "verify": "x".repeat(201)});
    assert_error(&client, "run_task", long, "verify must be").await;
    // A call does not wait longer for it than asked.
    let task = json!({"task": "SAY: x", "verify": "sleep 120", "wait_seconds": 0});
    let id = &call(&client, "run_task", task).await["task_id"];
    wait_for_status(&client, id, "finished").await;
    let run = call!(client, "wait_task", {"task_id": id, "wait_seconds": 5});
    assert_has!(run, {"status": "finished", "verified": null});
    assert_contains(&run["next"], "verify command runs");
}
