//! Tasks whose agent asks for permission before it acts, of the model or of the user: what is shown is all that an answer
//! allows, and nothing runs without one.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use mcp_client::{Client, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use super::git_host::GitHost;
use super::tools::Proxy;
use super::workspaces::git;
use super::{
    NAME, assert_error, call, call_with_id, client, client_with, env, env_with, tool_error,
    wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{Server, assert_contains};

/// An answer to what a report shows.
fn answer(report: &Value, accept: bool) -> Value {
    let id = &report["confirmation"]["confirmation_id"];
    assert!(id.is_string(), "{report}");
    json!({"task_id": report["task_id"], "confirmation_id": id, "accept": accept})
}

async fn accept(client: &Client, report: &Value) -> Value {
    call(client, "respond_confirmation", answer(report, true)).await
}

/// Starts a task whose actions all need a permission, and waits until it asks.
async fn ask(client: &Client, script: &str) -> Value {
    let task = json!({"task": script, "confirm": "always"});
    let asked = call(client, "run_task", task).await;
    assert_eq!(asked["status"], "waiting_for_confirmation", "{asked}");
    asked
}

/// The commands that wait, also those beyond the first page.
async fn commands(client: &Client, report: &Value) -> Vec<String> {
    let mut shown = report["confirmation"].clone();
    let mut commands: Vec<String> = Vec::new();
    let mut is_rest = false;
    loop {
        for action in shown["actions"].as_array().unwrap() {
            for value in action["arguments"].as_object().unwrap().values() {
                let Some(text) = value.as_str() else { continue };
                match commands.last_mut().filter(|_| is_rest) {
                    Some(last) => last.push_str(text),
                    None => commands.push(text.to_owned()),
                }
                is_rest = false;
            }
        }
        let Some(offset) = shown.get("next_offset") else {
            return commands;
        };
        is_rest = true;
        let rest = json!({"task_id": report["task_id"], "part": "confirmation", "offset": offset});
        shown = call(client, "get_task_result", rest).await["confirmation"].clone();
    }
}

/// The files that the task has made.
async fn made(client: &Client, id: &Value) -> Vec<String> {
    let changes = call!(client, "get_task_changes", {"task_id": id});
    let files = changes["changed_files"].as_array().unwrap().iter();
    files
        .map(|file| file.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn all_that_an_answer_allows_is_shown_whole() {
    let Some(client) = client().await else { return };
    // One command of many lines: the terminal takes no more than one.
    let padding = "echo padding && || ".repeat(40);
    let many_lines = format!("LINES: {padding}touch END");
    let lines = format!("{}touch END", "echo padding &&\n".repeat(40));
    let long = format!("echo {} > END", "x".repeat(12_000));
    for (script, expected) in [
        (
            "LIE: List the files || touch END".to_owned(),
            vec!["touch END".to_owned()],
        ),
        // What looks like a cookie takes the rest of the line.
        (
            "RUN: true cookie=a=b; touch END".to_owned(),
            vec!["true cookie=a=b; touch END".to_owned()],
        ),
        // A secret that looks like a place, and a place with the name of one.
        (
            "RUN: DB_PASSWORD=p@ss.w0rd touch END".to_owned(),
            vec!["DB_PASSWORD=*** touch END".to_owned()],
        ),
        (
            "RUN: TOKEN=h.example; touch END $TOKEN".to_owned(),
            vec!["TOKEN=h.example; touch END $TOKEN".to_owned()],
        ),
        (many_lines, vec![lines]),
        (format!("RUN: {long}"), vec![long]),
        (
            "PAR: touch A || touch B || touch END".to_owned(),
            ["touch A", "touch B", "touch END"]
                .map(str::to_owned)
                .into(),
        ),
    ] {
        let asked = ask(&client, &script).await;
        let id = &asked["task_id"];
        for report in [
            asked.clone(),
            call_with_id(&client, "get_task_status", id).await,
            call_with_id(&client, "get_task_result", id).await,
            call_with_id(&client, "wait_task", id).await,
        ] {
            assert_eq!(commands(&client, &report).await, expected, "{report}");
            assert!(report.get("last_action").is_none(), "{report}");
        }
        let events = call_with_id(&client, "get_task_events", id).await;
        assert!(
            !events.to_string().contains("\"text\":\"List the files"),
            "{events}"
        );
        let ended = accept(&client, &asked).await;
        assert_eq!(ended["status"], "finished", "{ended}");
        let made = made(&client, id).await;
        assert!(
            made.contains(&"A END".to_owned()),
            "{script:.80}: {made:?} {ended}"
        );
    }
}

#[tokio::test]
async fn each_action_waits_for_its_permission() {
    let Some(client) = client().await else { return };
    let asked = ask(&client, "RUN: echo one\nRUN: echo two\nSAY: both").await;
    assert_eq!(commands(&client, &asked).await, ["echo one"]);
    assert!(asked.get("last_output").is_none(), "{asked}");
    let second = accept(&client, &asked).await;
    assert_has!(second, {"status": "waiting_for_confirmation", "last_output": "one"});
    assert_eq!(commands(&client, &second).await, ["echo two"]);
    // The answer to the first action does not answer the second, however often it comes.
    for accept in [true, false] {
        let text = tool_error(&client, "respond_confirmation", answer(&asked, accept)).await;
        let now = second["confirmation"]["confirmation_id"].as_str().unwrap();
        assert_contains(&text, now);
        assert_contains(&text, "echo two");
    }
    let status = call_with_id(&client, "get_task_status", &asked["task_id"]).await;
    assert_eq!(status["confirmation"], second["confirmation"]);
    let ended = accept(&client, &second).await;
    assert_has!(ended, {"status": "finished", "result": "both", "last_output": "two"});
}

#[tokio::test]
async fn refused_action_is_not_run_and_the_agent_continues_with_a_message() {
    let Some(client) = client().await else { return };
    let path = format!("/tmp/mcp-confirmation-{}", Uuid::new_v4());
    let script = format!("WRITE: {path} first line and the rest\nSAY: never");
    let asked = ask(&client, &script).await;
    let id = &asked["task_id"];
    // The content of the file is shown.
    let action = &asked["confirmation"]["actions"][0];
    assert_eq!(action["tool"], "file_editor");
    let arguments = &action["arguments"];
    assert_has!(arguments, {"command": "create", "path": path.as_str(),
        "file_text": "first line and the rest"});
    let mut no = answer(&asked, false);
    no["reason"] = json!("not this file");
    let refused = call(&client, "respond_confirmation", no).await;
    assert_has!(refused, {"status": "idle", "changed_files": null});
    assert!(!std::path::Path::new(&path).exists());
    let events = call!(client, "get_task_events", {"task_id": id, "kinds": ["stop"]});
    assert_eq!(events["events"][0]["text"], "not this file", "{events}");
    let instead = call!(client, "send_message", {"task_id": id, "message": "SAY: understood"});
    assert_has!(instead, {"status": "finished", "result": "understood"});
}

#[tokio::test]
async fn only_respond_confirmation_answers_the_agent() {
    let Some(client) = client().await else { return };
    let asked = ask(&client, "RUN: echo x > made").await;
    let id = &asked["task_id"];
    // Resuming would approve the action.
    assert_error!(client, "resume_task", {"task_id": id}, "respond_confirmation");
    let message = json!({"task_id": id, "message": "SAY: go on"});
    assert_error(&client, "send_message", message, "respond_confirmation").await;
    let status = wait_for_status(&client, id, "waiting_for_confirmation").await;
    assert_eq!(status["steps"], 1);
    // A server that has just been started knows the same.
    let other = client_with(&openhands().unwrap(), &[]).await;
    let status = call_with_id(&other, "get_task_status", id).await;
    assert_eq!(status["confirmation"], asked["confirmation"]);
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    let (late, refusal) = (answer(&asked, true), "is not waiting for a permission");
    assert_error(&client, "respond_confirmation", late, refusal).await;
    // Nor is the action taken when the task goes on.
    let went_on = call!(client, "send_message", {"task_id": id, "message": "SAY: went on"});
    assert_has!(went_on, {"status": "finished", "result": "went on"});
    assert!(made(&client, id).await.is_empty());
}

#[tokio::test]
async fn permissions_do_not_extend_the_limit_of_steps() {
    let Some(client) = client().await else { return };
    let script = "RUN: touch a\nRUN: touch b\nRUN: touch c\nRUN: touch d";
    let task = json!({"task": script, "confirm": "always", "max_iterations": 2});
    let mut run = call(&client, "run_task", task).await;
    for _ in 0..2 {
        run = accept(&client, &run).await;
        assert_eq!(run["status"], "waiting_for_confirmation", "{run}");
    }
    let stopped = accept(&client, &run).await;
    assert_has!(stopped, {"status": "failed", "changed_files": ["A a", "A b"]});
    assert_contains(&stopped["error"], "max_iterations");
    let more = json!({"task_id": run["task_id"], "max_iterations": 9});
    let more = call(&client, "resume_task", more).await;
    assert_eq!(more["status"], "waiting_for_confirmation", "{more}");
    call_with_id(&client, "cancel_task", &run["task_id"]).await;
}

#[tokio::test]
async fn one_of_several_answers_counts_and_the_others_are_refused() {
    let Some(client) = client().await else { return };
    // Also if they come from two servers.
    let other = client_with(&openhands().unwrap(), &[]).await;
    for answers in [vec![true, false, true, false], vec![true; 3]] {
        let asked = ask(
            &client,
            "RUN: echo x > made\nRUN: echo y > unseen\nSAY: done",
        )
        .await;
        let id = &asked["task_id"];
        let clients = [&client, &other].into_iter().cycle();
        let answers = answers.into_iter().zip(clients);
        let answers = answers.map(async |(accept, client)| {
            let given = answer(&asked, accept);
            let told = client.call_tool("respond_confirmation", &given).await;
            (accept, told.unwrap())
        });
        let told = join_all(answers).await;
        let (refused, counted): (Vec<_>, Vec<_>) = told.iter().partition(|(_, told)| told.is_error);
        assert_eq!(counted.len(), 1, "{told:?}");
        for (_, told) in refused {
            let text = told.text();
            let is_known = text.contains("not waiting for a permission");
            assert!(
                is_known || text.contains("what the task waits for now"),
                "{text}"
            );
        }
        // On a busy machine the time of the call may be over before the action has ended.
        call_with_id(&client, "wait_task", id).await;
        let expected: &[&str] = if counted[0].0 { &["A made"] } else { &[] };
        assert_eq!(made(&client, id).await, expected);
        call_with_id(&client, "cancel_task", id).await;
    }
}

#[tokio::test]
async fn lost_answer_allows_nothing_more() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let asked = ask(&client, "RUN: touch shown\nRUN: touch unseen").await;
    let id = &asked["task_id"];
    // The agent server gets the answer, and its response is lost.
    proxy.lose_response("respond_to_confirmation");
    let second = accept(&client, &asked).await;
    assert_eq!(second["status"], "waiting_for_confirmation", "{second}");
    let text = tool_error(&client, "respond_confirmation", answer(&asked, true)).await;
    assert_contains(&text, "touch unseen");
    assert_eq!(commands(&client, &second).await, ["touch unseen"]);
    assert_eq!(made(&client, id).await, ["A shown"]);
    call_with_id(&client, "cancel_task", id).await;
}

#[tokio::test]
async fn limit_of_steps_counts_those_before_and_after_a_permission() {
    let Some(client) = client().await else { return };
    let script = "RUN: touch a\nRISK: touch b\nRUN: touch c\nRUN: sleep 600\nRUN: touch never";
    let task = json!({"task": script, "confirm": "risky", "max_iterations": 3});
    let asked = call(&client, "run_task", task).await;
    assert_eq!(commands(&client, &asked).await, ["touch b"]);
    // The reason is there as soon as the stop can be seen.
    let stopped = accept(&client, &asked).await;
    assert_has!(stopped, {"status": "failed", "changed_files": ["A a", "A b", "A c"]});
    assert_contains(&stopped["error"], "max_iterations");
}

/// A user that records questions and gives prepared answers.
struct User {
    asked: Mutex<Vec<String>>,
    answers: Mutex<Vec<Value>>,
}

impl User {
    fn answer(&self, question: &Value) -> Value {
        let message = question["message"].as_str().unwrap().to_owned();
        self.asked.lock().unwrap().push(message);
        self.answers.lock().unwrap().remove(0)
    }
}

impl Handler for User {
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        assert_eq!(method, "elicitation/create");
        let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
        let answer = self.answer(&params);
        Box::pin(async move { Ok(to_raw_value(&answer).unwrap()) })
    }
}

async fn user(server: &Server, era: EraChoice, answers: Vec<Value>) -> (Client, Arc<User>) {
    let user = Arc::new(User {
        asked: Mutex::default(),
        answers: Mutex::new(answers),
    });
    let capabilities = json!({"elicitation": {}});
    let client = server
        .client_with(era, capabilities, Some(user.clone()))
        .await;
    (client, user)
}

/// Calls a tool whose user answers all questions. Returns true if it failed, and its text. In the
/// modern era the call ends with each question and is repeated with the answer.
async fn call_with_user(
    client: &Client,
    user: &User,
    tool: &str,
    arguments: &Value,
) -> (bool, String) {
    let mut params = json!({"name": tool, "arguments": arguments});
    loop {
        let result = client.request("tools/call", &params).await.unwrap();
        let result: Value = serde_json::from_str(result.get()).unwrap();
        if result["resultType"] != "input_required" {
            let text = result["content"][0]["text"].as_str().unwrap();
            return (result["isError"] == true, text.to_owned());
        }
        let mut answers = json!({});
        for (key, question) in result["inputRequests"].as_object().unwrap() {
            answers[key] = user.answer(&question["params"]);
        }
        params["inputResponses"] = answers;
        if let Some(state) = result.get("requestState") {
            params["requestState"] = state.clone();
        }
    }
}

#[tokio::test]
async fn user_is_asked_for_each_action_and_the_model_cannot_answer() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = client_with(&real, &[]).await;
    let yes = json!({"action": "accept", "content": {"allow": true}});
    let no = json!({"action": "accept", "content": {"allow": false, "reason": "not this one"}});
    let closed = json!({"action": "cancel"});
    let key = || json!(Uuid::new_v4().to_string());
    let padding = "echo padding || ".repeat(40);
    let script = format!("LIE: List files || touch a\nLINES: {padding}touch END\nSAY: both");
    for (era, key) in [
        (EraChoice::Legacy, key()),
        (EraChoice::Modern, key()),
        (EraChoice::Modern, Value::Null),
    ] {
        let answers = [&yes, &no, &closed, &yes].map(Clone::clone);
        let (client, user) = user(&server, era, answers.into()).await;
        let ask = async |tool: &str, arguments: &Value| {
            call_with_user(&client, &user, tool, arguments).await
        };
        let task = json!({"task": script, "confirm": "always", "idempotency_key": key,
            "wait_seconds": 55});
        let (failed, run) = ask("run_task", &task).await;
        assert!(!failed, "{run}");
        let run: Value = serde_json::from_str(&run).unwrap();
        assert_has!(run, {"status": "idle", "changed_files": ["A a"]});
        // The questions show all actions whole.
        let asked = user.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_contains(&asked[0], "touch a");
        assert!(!asked[0].contains("List files"), "{asked:?}");
        assert_contains(&asked[1], "    echo padding\n    touch END\n");
        // The user is asked only for the actions that the model has read.
        let run = call!(control, "run_task", {"task": "RUN: touch a\nSAY: done",
            "confirm": "always"});
        let id = &run["task_id"];
        let mut accept = json!({"task_id": id, "confirmation_id": "0000", "accept": true,
            "wait_seconds": 55});
        let (failed, text) = ask("respond_confirmation", &accept).await;
        assert!(failed && text.contains("touch a"), "{text}");
        assert_eq!(user.asked.lock().unwrap().len(), 2);
        // The model cannot accept without its user.
        accept["confirmation_id"] = run["confirmation"]["confirmation_id"].clone();
        let (failed, text) = ask("respond_confirmation", &accept).await;
        assert!(failed && text.contains("did not answer"), "{text}");
        wait_for_status(&control, id, "waiting_for_confirmation").await;
        let (failed, text) = ask("respond_confirmation", &accept).await;
        assert!(!failed && text.contains("finished"), "{text}");
        assert_eq!(user.asked.lock().unwrap().len(), 4);
        // The task of an answer that cannot be read is known.
        let invalid = json!({"action": "accept", "content": {"allow": "perhaps"}});
        let (client, user) = self::user(&server, era, vec![invalid]).await;
        let task = json!({"task": "RUN: touch a", "confirm": "always"});
        let (failed, text) = call_with_user(&client, &user, "run_task", &task).await;
        assert!(failed && text.contains("is not valid"), "{text}");
        let (_, id) = text.split_once(" The task is ").unwrap();
        let id = &json!(id[..36]);
        wait_for_status(&control, id, "waiting_for_confirmation").await;
        call_with_id(&control, "cancel_task", id).await;
    }
}

#[tokio::test]
async fn user_is_asked_before_changes_are_published() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let server = Server::start(NAME, &env_with(&real, &host.options("", ""))).await;
    let control = server.client().await;
    let (yes, no) = (json!({"confirm": true}), json!({"confirm": false}));
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let run = call!(control, "run_task", {"task": "RUN: echo x > new",
            "context": {"repository": host.url()}});
        let id = &run["task_id"];
        let answers = [no.clone(), yes.clone()];
        let answers = answers.map(|content| json!({"action": "accept", "content": content}));
        let (client, user) = user(&server, era, answers.into()).await;
        // The model cannot agree for its user.
        let asks = json!({"task_id": id, "title": "New", "confirm": "000000000000"});
        let (failed, text) = call_with_user(&client, &user, "publish_task", &asks).await;
        assert!(failed && text.contains("did not agree"), "{text}");
        let branch = format!("openhands/{}", &id.as_str().unwrap()[..8]);
        assert_eq!(git(&host.bare(), &["branch", "--list", &branch]), "");
        let (failed, text) = call_with_user(&client, &user, "publish_task", &asks).await;
        assert!(!failed, "{text}");
        let shown = git(&host.bare(), &["show", "--format=%s", &branch]);
        assert_contains(&shown, "New");
        let asked = user.asked.lock().unwrap().clone();
        assert_contains(&asked[1], &branch);
    }
}
