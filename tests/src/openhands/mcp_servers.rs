//! Agents that call tools of the MCP servers of their tasks.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use super::callbacks::{host, wait_for_delivery};
use super::repositories::confirmation;
use super::{
    NAME, add_agent, call, call_with_id, client_with, conversation, env_with, remove_agent,
    run_task, tool_error, wait_for_status,
};
use crate::harness::real::{self, OpenHands, openhands};
use crate::harness::{
    FakeService, Request, Response, Server, assert_contains, assert_lacks, eventually, http_client,
};

/// A model that calls one tool and reports its result, and an agent profile with that model.
struct ToolCaller {
    model: FakeService,
    name: String,
}

impl ToolCaller {
    async fn start(real: &OpenHands, tool: &'static str, arguments: Value) -> Self {
        let model = FakeService::start(move |request| answer(request, tool, &arguments)).await;
        let name = format!("caller-{}", Uuid::new_v4().simple());
        let llm = json!({"model": "openai/caller", "base_url": format!("{}/v1", model.url),
            "api_key": "not-a-key", "num_retries": 0, "reasoning_effort": "none", "stream": false});
        add_agent(real, &name, llm).await;
        Self { model, name }
    }

    /// The names of the tools that the model was offered.
    fn tools(&self) -> Vec<String> {
        let requests = self.model.requests();
        let bodies = requests.iter().map(Request::json);
        let mut offered = bodies.filter_map(|body| body["tools"].as_array().cloned());
        let tools = offered.find(|tools| !tools.is_empty()).unwrap_or_default();
        let names = tools.iter().map(|tool| &tool["function"]["name"]);
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }
}

/// The name that the agent server gives to a tool of an MCP server: that of a single server has no prefix,
/// and an older agent server gets only servers that answer.
fn offered<'a>(request: &'a Value, tool: &'a str) -> &'a str {
    let tools = request["tools"].as_array().into_iter().flatten();
    let mut names = tools.filter_map(|offered| offered["function"]["name"].as_str());
    names.find(|name| tool.ends_with(name)).unwrap_or(tool)
}

/// The model's reply to a request.
fn answer(request: &Request, tool: &str, arguments: &Value) -> Response {
    let request = request.json();
    let tool = offered(&request, tool);
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let called = messages.iter().rfind(|message| message["role"] == "tool");
    let function = match called {
        None => json!({"name": tool, "arguments": arguments.to_string()}),
        Some(called) => {
            let said = json!({"message": called["content"].to_string()});
            json!({"name": "finish", "arguments": said.to_string()})
        }
    };
    let call =
        json!({"id": format!("call_{}", messages.len()), "type": "function", "function": function});
    let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let (model, id) = (&request["model"], "chatcmpl-caller");
    if request["stream"] != true {
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        return Response::json(
            200,
            &json!({"id": id, "object": "chat.completion", "created": 0, "model": model,
                "choices": [choice], "usage": usage}),
        );
    }
    let mut delta = message;
    delta["tool_calls"][0]["index"] = json!(0);
    let chunks = [
        json!({"index": 0, "delta": delta, "finish_reason": null}),
        json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"}),
    ];
    let events = chunks.map(|choice| {
        let chunk = json!({"id": id, "object": "chat.completion.chunk", "created": 0,
            "model": model, "choices": [choice], "usage": usage});
        format!("data: {chunk}\n\n")
    });
    let stream = events.concat() + "data: [DONE]\n\n";
    Response::Http(200, "text/event-stream", stream.into())
}

#[tokio::test]
async fn task_calls_a_server_with_a_token() {
    let Some(real) = openhands() else { return };
    let token = format!("token-{}", Uuid::new_v4().simple());
    // The second server is down, which must not stop the task.
    let other = Server::start(NAME, &env_with(&real, &[("MCP_TOKEN", &token)])).await;
    let servers = format!("others={},dead=http://127.0.0.1:9/mcp", other.url);
    let tokens = format!("others={token}");
    let given = [
        ("OPENHANDS_MCP_SERVERS", &*servers),
        ("OPENHANDS_MCP_TOKENS", &*tokens),
    ];
    let client = client_with(&real, &given).await;
    let caller = ToolCaller::start(&real, "others_list_tasks", json!({"limit": 1})).await;
    let task = json!({"task": "What was there before?", "agent": caller.name});
    let run = call(&client, "run_task", task).await;
    let tools = caller.tools();
    assert_eq!(run["status"], "finished", "{run} {tools:?}");
    let result = run["result"].as_str().unwrap();
    assert!(result.contains("task_id"), "{result} {tools:?}");
    let warning = run["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("may lack their tools: dead."), "{run}");
    let events = call_with_id(&client, "get_task_events", &run["task_id"]).await;
    assert_contains(&events.to_string(), r#"list_tasks {\"limit\":1}"#);
    // The token is neither in the conversation nor in the requests to the model.
    let seen = conversation(&real, &run["task_id"]).await;
    assert_lacks(&seen.to_string(), &token);
    for request in caller.model.requests() {
        assert!(!request.has(&token));
    }
    // Other servers' tasks do not have these tools.
    let plain = client_with(&real, &[]).await;
    let run = run_task(&plain, "SAY: nothing given").await;
    let seen = conversation(&real, &run["task_id"]).await;
    let given = seen["agent"]["mcp_config"].as_object();
    assert!(given.is_none_or(Map::is_empty), "{given:?}");
    remove_agent(&real, &caller.name).await;
}

#[tokio::test]
async fn task_runs_an_n8n_workflow() {
    let (Some(real), Some(n8n)) = (real::openhands(), real::n8n()) else {
        return;
    };
    let listed = http_client()
        .get(format!("{}/api/v1/workflows?tags=example", n8n.url))
        .header("X-N8N-API-KEY", &n8n.api_key);
    let listed: Value = listed.send().await.unwrap().json().await.unwrap();
    let id = listed["data"][0]["id"].clone();
    let n8n_env = [
        ("N8N_URL", &*n8n.url),
        ("N8N_API_KEY", &n8n.api_key),
        ("N8N_MCP_TOKEN", &n8n.mcp_token),
    ];
    let workflows = Server::start("n8n-mcp-server", &n8n_env).await;
    let servers = format!("n8n={}", workflows.url);
    let given = [("OPENHANDS_MCP_SERVERS", &*servers)];
    let client = client_with(&real, &given).await;
    let arguments = json!({"workflow_id": id, "parameters": {"input": "from an agent"}});
    let caller = ToolCaller::start(&real, "run_workflow", arguments).await;
    let run = call!(client, "run_task", {"task": "Run the workflow", "agent": caller.name});
    assert_eq!(run["status"], "finished", "{run} {:?}", caller.tools());
    for expected in ["completed", "execution_id", "from an agent"] {
        assert_contains(&run["result"], expected);
    }
    remove_agent(&real, &caller.name).await;
}

#[tokio::test]
async fn task_restarts_a_container_through_the_gateway() {
    let (Some(real), Some(engine)) = (real::openhands(), real::docker()) else {
        return;
    };
    let docker_env = [("DOCKER_HOST", engine.as_str()), ("MCP_TOOLSETS", "all")];
    let docker = Server::start("docker-mcp-server", &docker_env).await;
    let admin = docker.client().await;
    let name = format!("looked-after-{}", Uuid::new_v4().simple());
    let container = json!({"image": "busybox:test", "name": name, "command": ["sleep", "600"]});
    call(&admin, "create_container", container).await;
    let inspect = async || call(&admin, "get_container", json!({"container": name})).await;
    let started = async || inspect().await["state"]["started_at"].clone();
    let before = started().await;
    let backend = format!("--backend=docker={}", docker.url);
    let gateway = Server::with_args("mcp-gateway", &["--events=memory", &backend], &[]).await;
    let servers = format!("gateway={}", gateway.url);
    let client = client_with(&real, &[("OPENHANDS_MCP_SERVERS", &*servers)]).await;
    let arguments = json!({"container": name, "timeout_seconds": 0});
    let caller = ToolCaller::start(&real, "docker__restart_container", arguments).await;
    let run = call!(client, "run_task", {"task": "Restart it", "agent": caller.name});
    assert_eq!(run["status"], "finished", "{run} {:?}", caller.tools());
    assert_contains(&run["result"], &name);
    assert_ne!(started().await, before);
    let mut remove = json!({"container": name, "force": true});
    let question = tool_error(&admin, "remove_container", remove.clone()).await;
    remove["confirm"] = json!(confirmation(&question));
    call(&admin, "remove_container", remove).await;
    remove_agent(&real, &caller.name).await;
}

/// A way to the server at `address` (`127.0.0.1:PORT`) on which each `initialize` takes this long.
async fn slow(address: String, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let address = address.clone();
            tokio::spawn(async move {
                let mut begin = Vec::new();
                while !String::from_utf8_lossy(&begin).contains("\"method\"") {
                    if client.read_buf(&mut begin).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                if String::from_utf8_lossy(&begin).contains("\"initialize\"") {
                    tokio::time::sleep(delay).await;
                }
                let mut server = TcpStream::connect(address).await.unwrap();
                server.write_all(&begin).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    url
}

/// The start takes longer than our request for it, and the run ends right after it.
#[tokio::test]
async fn task_whose_start_was_slow_is_finished() {
    let Some(real) = openhands() else { return };
    let other = Server::start(NAME, &env_with(&real, &[])).await;
    let address = other.url.replace("http://", "").replace("/mcp", "");
    let servers = format!("slow={}", slow(address, Duration::from_secs(18)).await);
    let receiver = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let more = [
        ("OPENHANDS_MCP_SERVERS", &*servers),
        ("OPENHANDS_CALLBACK_HOSTS", host(&receiver)),
    ];
    let client = client_with(&real, &more).await;
    // With this wait the call has time for the slow start.
    let task = json!({"task": "FINISH: ok", "verify": "echo checked", "wait_seconds": 40,
        "callback_url": format!("{}/hook", receiver.url)});
    let run = call(&client, "run_task", task).await;
    let id = &run["task_id"];
    let waited = call_with_id(&client, "wait_task", id).await;
    assert_has!(waited, {"status": "finished", "result": "ok", "verified": true});
    let called = async || Some(receiver.requests()).filter(|got| !got.is_empty());
    let got = eventually("the callback", called).await;
    assert_has!(got[0].json(), {"task_id": id, "status": "finished", "result": "ok"});
    // The delivery is the last that is written, also as an event.
    wait_for_delivery(&real, id).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = conversation(&real, id).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    wait_for_status(&client, id, "finished").await;
    let after = conversation(&real, id).await;
    assert_eq!(after["updated_at"], before["updated_at"], "{after}");
    assert_eq!(after["tags"], before["tags"]);
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn invalid_options_are_refused_at_the_start() {
    let refused = |variables: &[(&'static str, &'static str)]| {
        let output = std::process::Command::new(crate::harness::binary(NAME))
            .args(["--port", "0"])
            .env_clear()
            .envs(variables.iter().copied())
            .output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // The variable, its value, and a part of the error.
    let rows = "OPENHANDS_MCP_SERVERS n8n must be NAME=URL
        OPENHANDS_MCP_TOKENS n8n=very-secret does not name it
        OPENHANDS_GIT_HOSTS x=svn+https://h OPENHANDS_GIT_HOSTS
        OPENHANDS_GIT_TOKENS very-secret OPENHANDS_GIT_TOKENS
        OPENHANDS_URL ftp://example.test OPENHANDS_URL
        OPENHANDS_URL http://a:very-secret@127.0.0.1 password
        OPENHANDS_WORKSPACE_ROOT ../x OPENHANDS_WORKSPACE_ROOT";
    for row in rows.lines() {
        let mut words = row.trim().splitn(3, ' ');
        let [name, value, part] = [(); 3].map(|()| words.next().unwrap());
        let text = refused(&[(name, value)]);
        assert_contains(&text, part);
        assert_lacks(&text, "very-secret");
    }
}
