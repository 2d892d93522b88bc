//! Runs the workflows of `docs/recipes.md` on the real n8n, with a gateway in front of our servers.

use serde_json::{Value, json};
use uuid::Uuid;

use super::blocks;
use crate::harness::{
    FakeService, Request, Response, Server, assert_has, eventually, http_client, real, wait_until,
};

/// The tool that the model of the n8n agent calls.
const AGENT_TOOL: &str = "docker__list_containers";

/// A script for the model of OpenHands, which takes longer than the workflow waits at first.
const TASK: &str = "RUN: head -c 13 containers.json\nSLEEP: 3\nFINISH: described";

/// A workflow and the `curl` line that calls its webhook.
struct Recipe {
    workflow: String,
    path: String,
}

fn recipes() -> [Recipe; 3] {
    let blocks = blocks("docs/recipes.md");
    let pairs = blocks.windows(2).filter_map(|pair| {
        let [workflow, curl] = pair else { return None };
        (workflow.language == "json n8n").then(|| {
            let (_, rest) = curl.text.split_once("localhost:5678/webhook/").unwrap();
            Recipe {
                workflow: workflow.text.clone(),
                path: rest.split(' ').next().unwrap().to_owned(),
            }
        })
    });
    let recipes: Vec<_> = pairs.collect();
    recipes.try_into().ok().expect("three workflows")
}

/// A model that calls one tool and repeats its result.
fn model(request: &Request) -> Response {
    let request: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let result = messages.iter().find(|message| message["role"] == "tool");
    let (message, reason) = match result {
        Some(result) => (
            json!({"role": "assistant", "content": result["content"]}),
            "stop",
        ),
        None => {
            let tools = request["tools"].as_array().cloned().unwrap_or_default();
            let names = tools
                .iter()
                .map(|tool| tool["function"]["name"].as_str().unwrap());
            let name = names.into_iter().find(|name| name.ends_with(AGENT_TOOL));
            let function = json!({"name": name, "arguments": "{\"all\":true}"});
            let call = json!({"id": "call_1", "type": "function", "function": function});
            (
                json!({"role": "assistant", "content": "", "tool_calls": [call]}),
                "tool_calls",
            )
        }
    };
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let answer = json!({"id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [choice], "usage": usage});
    Response::json(200, &answer)
}

/// The real n8n with the recipes' gateway.
struct Setup {
    n8n: real::N8n,
    gateway: Server,
    _backends: [Server; 2],
}

impl Setup {
    async fn start() -> Option<Self> {
        let (n8n, openhands, docker) = (real::n8n()?, real::openhands()?, real::docker()?);
        let port = n8n.url.rsplit(':').next().unwrap_or_default();
        let hosts = format!("localhost:{port},127.0.0.1:{port}");
        let env = [
            ("OPENHANDS_URL", &*openhands.url),
            ("OPENHANDS_API_KEY", &openhands.api_key),
            ("OPENHANDS_CALLBACK_HOSTS", &hosts),
        ];
        let openhands = Server::start("openhands-mcp-server", &env).await;
        let docker = Server::start("docker-mcp-server", &[("DOCKER_HOST", &docker)]).await;
        let backends = [("openhands", &openhands), ("docker", &docker)]
            .map(|(name, server)| format!("--backend={name}={}", server.url));
        let args = ["--events=memory", &backends[0], &backends[1]];
        let gateway = Server::with_args("mcp-gateway", &args, &[]).await;
        for tool in [AGENT_TOOL, "openhands__wait_task"] {
            wait_until(tool, async || {
                let tools = gateway.result("tools/list", json!({})).await;
                tools.to_string().contains(tool)
            })
            .await;
        }
        let _backends = [openhands, docker];
        Some(Self {
            n8n,
            gateway,
            _backends,
        })
    }

    /// A request to n8n's API.
    async fn api(&self, path: &str, body: &Value) -> Value {
        let request = http_client().post(format!("{}/api/v1{path}", self.n8n.url));
        let request = request.header("X-N8N-API-KEY", &self.n8n.api_key);
        let request = request.header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Reads from n8n's API.
    async fn read(&self, path: &str) -> Value {
        let request = http_client().get(format!("{}/api/v1{path}", self.n8n.url));
        let request = request.header("X-N8N-API-KEY", &self.n8n.api_key);
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Imports a recipe's workflow and calls it; returns what it answers, and its id.
    async fn run(
        &self,
        recipe: &Recipe,
        credential: Option<&Value>,
        task: &str,
    ) -> (Value, String) {
        // Other runs on this n8n have the same recipe.
        let path = format!("{}-{}", recipe.path, Uuid::new_v4().simple());
        let gateway = self.gateway.url.replace("127.0.0.1", "localhost");
        let workflow = recipe
            .workflow
            .replace(&format!("\"{}\"", recipe.path), &format!("\"{path}\""))
            .replace("http://127.0.0.1:3455/mcp", &gateway);
        assert!(workflow.contains(&gateway) && workflow.contains(&path));
        let mut workflow: Value = serde_json::from_str(&workflow).unwrap();
        for node in workflow["nodes"].as_array_mut().unwrap() {
            if node["name"] == "Model" {
                node["credentials"] = json!({ "openAiApi": credential });
            }
        }
        let made = self.api("/workflows", &workflow).await;
        let id = made["id"].as_str().unwrap().to_owned();
        self.api(&format!("/workflows/{id}/activate"), &json!({}))
            .await;
        let url = format!("{}/webhook/{path}", self.n8n.url);
        let answer = eventually("the webhook", async || {
            let body = json!({ "task": task }).to_string();
            let request = http_client()
                .post(&url)
                .header("content-type", "application/json");
            let response = request.body(body).send().await.unwrap();
            // n8n registers it some time after the activation.
            (response.status() != 404).then_some(response)
        })
        .await;
        (answer.json().await.unwrap(), id)
    }
}

mod n8n {
    mod real {
        use super::super::*;

        #[tokio::test]
        async fn agent_calls_docker_through_the_gateway() {
            let Some(setup) = Setup::start().await else {
                return;
            };
            let model = FakeService::start(model).await;
            let data =
                json!({"apiKey": "none", "url": format!("{}/v1", model.url), "header": false});
            let credential = json!({"name": "model", "type": "openAiApi", "data": data});
            let credential = setup.api("/credentials", &credential).await;
            let [recipe, ..] = recipes();
            let task = "Which are there?";
            let (answer, _) = setup.run(&recipe, Some(&credential), task).await;
            let output = answer["output"]
                .as_str()
                .unwrap_or_else(|| panic!("{answer}"));
            assert!(output.contains("containers"), "{output}");
        }

        #[tokio::test]
        async fn workflow_waits_for_a_task_of_openhands() {
            let Some(setup) = Setup::start().await else {
                return;
            };
            let [_, mut recipe, _] = recipes();
            let short = recipe
                .workflow
                .replace("{ task: ", "{ wait_seconds: 1, task: ");
            assert_ne!(short, recipe.workflow);
            recipe.workflow = short;
            let (answer, _) = setup.run(&recipe, None, TASK).await;
            assert_has(
                &answer,
                json!({"status": "finished", "result": "described", "last_output": "{\"containers\""}),
            );
        }

        #[tokio::test]
        async fn task_of_openhands_resumes_the_workflow_that_waits_for_it() {
            let Some(setup) = Setup::start().await else {
                return;
            };
            let [.., recipe] = recipes();
            let task = "SLEEP: 2\nRUN: echo from-agent\nFINISH: called back";
            let (answer, id) = setup.run(&recipe, None, task).await;
            assert_eq!(answer["message"], "Workflow was started", "{answer}");
            let path = format!("/executions?workflowId={id}&status=success&includeData=true");
            let result = async || {
                let listed = setup.read(&path).await;
                let data = &listed["data"].get(0)?["data"]["resultData"]["runData"];
                Some(data["Result"][0]["data"]["main"][0][0]["json"].clone())
            };
            let result = eventually("the end of the execution", result).await;
            assert_has(
                &result,
                json!({"status": "finished", "result": "called back", "last_output": "from-agent"}),
            );
        }
    }
}
