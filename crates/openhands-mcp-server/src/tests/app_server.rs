//! A fake app server with one sandbox. Its responses have the fields and the order of events of
//! OpenHands 1.11.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::KEY;
use super::fake::{FakeAgentServer, RecordedRequest, Reply};

/// The API key of the agent server in the sandbox.
pub(super) const SANDBOX_KEY: &str = "key-of-the-sandbox";
pub(super) const SANDBOX: &str = "2wJqiWbQqBCzSxUJm4ehsO";

/// The states of a start, one for each poll.
pub(super) const STEPS: [&str; 5] = [
    "WAITING_FOR_SANDBOX",
    "PREPARING_REPOSITORY",
    "SETTING_UP_SKILLS",
    "STARTING_CONVERSATION",
    "READY",
];

/// The app server and the agent server in its sandbox.
pub(super) struct FakeAppServer {
    pub(super) front: FakeAgentServer,
    pub(super) sandbox: FakeAgentServer,
    pub(super) state: Arc<Mutex<AppServerState>>,
}

pub(super) struct AppServerState {
    /// The bodies of starts.
    pub(super) starts: Vec<Value>,
    /// The index in `STEPS` of the newest start.
    pub(super) step: usize,
    /// The start fails after its first poll.
    pub(super) fails: bool,
    pub(super) sandbox: &'static str,
    pub(super) deleted: bool,
}

impl FakeAppServer {
    pub(super) async fn start() -> Self {
        let sandbox = FakeAgentServer::start(|request, _| {
            let header = format!("x-session-api-key: {SANDBOX_KEY}");
            match request.target.contains("/health") || request.head.contains(&header) {
                true => Reply::Default,
                false => Reply::unauthorized(),
            }
        })
        .await;
        let state = Arc::new(Mutex::new(AppServerState {
            starts: Vec::new(),
            step: 0,
            fails: false,
            sandbox: "RUNNING",
            deleted: false,
        }));
        let (url, kept) = (sandbox.url.clone(), Arc::clone(&state));
        let reply =
            move |request: &RecordedRequest, _| answer(request, &mut kept.lock().unwrap(), &url);
        let front = FakeAgentServer::start(reply).await;
        Self {
            front,
            sandbox,
            state,
        }
    }

    /// Completes the newest start.
    pub(super) fn ready(&self) {
        self.state.lock().unwrap().step = STEPS.len() - 1;
    }
}

fn answer(request: &RecordedRequest, state: &mut AppServerState, sandbox: &str) -> Reply {
    let (method, target) = request.target.split_once(' ').unwrap();
    let Some(path) = target.strip_prefix("/api/v1/") else {
        return match target {
            "/health" => Reply::Json(200, json!("OK")),
            _ => Reply::not_found(),
        };
    };
    // A self-hosted app server reads the first header, the cloud the second one.
    let keys = [
        format!("x-session-api-key: {KEY}"),
        format!("authorization: bearer {KEY}"),
    ];
    if !keys.iter().all(|key| request.head.contains(key)) {
        return Reply::unauthorized();
    }
    let path = path.split('?').next().unwrap();
    let is_ready = !state.starts.is_empty() && state.step == STEPS.len() - 1 && !state.deleted;
    let body = match (method, path) {
        ("GET", "app-conversations/count") => json!(u8::from(is_ready)),
        ("POST", "app-conversations") => {
            state.starts.push(request.json());
            state.step = 0;
            start(state, "WORKING")
        }
        ("GET", "app-conversations/start-tasks") => json!([poll_start(state)]),
        ("GET", "app-conversations/start-tasks/search") => {
            let starts = poll_start(state);
            let starts = starts.as_object().map(|_| &starts);
            json!({"items": starts.into_iter().collect::<Vec<_>>(), "next_page_id": null})
        }
        ("GET", "app-conversations")
            if is_ready && target.replace('-', "").ends_with(&id(state)) =>
        {
            json!([conversation(state, sandbox)])
        }
        ("GET", "app-conversations") => json!([null]),
        ("GET", "app-conversations/search") if is_ready => {
            json!({"items": [conversation(state, sandbox)], "next_page_id": "Mg=="})
        }
        ("GET", "app-conversations/search") => json!({"items": [], "next_page_id": null}),
        // A sandbox is named after the conversation for which it is made.
        ("DELETE", _) if !state.starts.is_empty() && path == format!("sandboxes/{}", id(state)) => {
            state.fails = true;
            json!({"success": true})
        }
        ("DELETE", _) if path.starts_with("app-conversations/") => {
            state.deleted = true;
            json!({"success": true})
        }
        ("POST", _) if path == format!("sandboxes/{SANDBOX}/resume") => {
            state.sandbox = "RUNNING";
            json!({"success": true})
        }
        _ => return Reply::not_found(),
    };
    Reply::Json(200, body)
}

/// A poll of the newest start, which then reaches its next step.
fn poll_start(state: &mut AppServerState) -> Value {
    if state.starts.is_empty() {
        return Value::Null;
    }
    if state.fails {
        return start(state, "ERROR");
    }
    let now = start(state, STEPS[state.step]);
    state.step = (state.step + 1).min(STEPS.len() - 1);
    now
}

/// `AppConversationStartTask`.
fn start(state: &AppServerState, status: &str) -> Value {
    let request = state.starts.last().unwrap();
    let is_ready = status == "READY";
    json!({
        "id": "4b3f0a52c0de4b7c9a6d8e1f2a3b4c5d",
        "created_by_user_id": "user-1",
        "status": status,
        "detail": (status == "ERROR").then_some("docker: no such image at registry.example.test"),
        "app_conversation_id": is_ready.then(|| id(state)),
        "sandbox_id": (status != "WORKING").then(|| id(state)),
        "agent_server_url": null,
        "request": {
            "sandbox_id": null,
            "conversation_id": request["conversation_id"],
            "initial_message": request["initial_message"],
            "processors": null, "llm_model": null, "agent_profile_id": null,
            "selected_repository": request["selected_repository"],
            "selected_branch": null, "git_provider": null, "title": null, "trigger": null,
            "pr_number": [], "parent_conversation_id": null, "agent_type": "default",
            "public": null, "plugins": null, "secrets": null,
        },
        "created_at": "2026-11-21T09:48:20.100000Z",
        "updated_at": "2026-11-21T09:48:26.411985Z",
    })
}

/// The id of the newest conversation. The app server writes ids without dashes.
fn id(state: &AppServerState) -> String {
    let id = state.starts.last().map(|start| &start["conversation_id"]);
    let id = id.and_then(Value::as_str).unwrap_or(super::ID);
    id.replace('-', "")
}

/// `AppConversation`.
fn conversation(state: &AppServerState, sandbox: &str) -> Value {
    let runs = state.sandbox == "RUNNING";
    json!({
        "id": id(state),
        "created_by_user_id": "user-1",
        "sandbox_id": SANDBOX,
        "selected_repository": null, "selected_branch": null, "git_provider": null,
        "title": "Conversation 82183",
        "trigger": null, "pr_number": [], "llm_model": "openhands/fake",
        "agent_kind": "openhands",
        "metrics": {"model_name": "openhands/fake", "accumulated_cost": 0.25,
            "max_budget_per_task": null, "accumulated_token_usage": null},
        "parent_conversation_id": null, "sub_conversation_ids": [], "public": null,
        "tags": {"archiveworkspacepath": "/workspace/project"},
        "created_at": "2026-11-21T09:48:26.411985Z",
        "updated_at": "2026-11-21T09:48:30.000001Z",
        "acp_server": null, "launched_agent_profile": null,
        "sandbox_status": state.sandbox,
        "execution_status": runs.then_some("finished"),
        "conversation_url": runs.then(|| format!("{sandbox}/api/conversations/{}", id(state))),
        "session_api_key": runs.then_some(SANDBOX_KEY),
    })
}
