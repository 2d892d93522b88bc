//! Runs the `curl` lines of the README and of `docs/first-calls.md`, and compares the answers.

use std::process::Command;

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use serde_json::Value;

use super::{Block, blocks, port, server_of};
use crate::documents;
use crate::harness::{Server, real};
use crate::seed_001::{LONG_CALLS, LONG_WAIT};

/// A `curl` line with the answer below it.
struct Example {
    position: String,
    command: String,
    answer: Value,
}

impl Example {
    /// Returns true for a tool call, which needs the service.
    fn is_call(&self) -> bool {
        self.command.contains(" -d ")
    }

    /// The port in its URL.
    fn port(&self) -> &str {
        let (_, rest) = self
            .command
            .split_once("localhost:")
            .expect("localhost:PORT");
        rest.split('/').next().unwrap()
    }

    fn run(&self, server: &Server) {
        let place = &self.position;
        let free = server.url.split([':', '/']).nth(4).unwrap();
        let command = self
            .command
            .replace(&format!(":{}/", self.port()), &format!(":{free}/"))
            .replace(LONG_WAIT.0, LONG_WAIT.1);
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(output.status.success(), "{place}: {output:?}");
        let found = String::from_utf8(output.stdout).unwrap();
        let found: Value = serde_json::from_str(&found)
            .unwrap_or_else(|error| panic!("{place}: {error}: {found}"));
        if let Err(difference) = documents::matches(&self.answer, &found, "$") {
            panic!(
                "{place}: {difference}\nshown {:#}\nfound {found:#}",
                self.answer
            );
        }
    }
}

fn examples() -> Vec<Example> {
    let blocks = [blocks("README.md"), blocks("docs/first-calls.md")].concat();
    let pair = |pair: &[Block]| {
        let [command, answer] = pair else { return None };
        let is_curl = command.language == "sh" && command.text.starts_with("curl ");
        is_curl.then(|| Example {
            position: command.position.clone(),
            command: command.text.clone(),
            answer: serde_json::from_str(&answer.text).expect("an answer"),
        })
    };
    let examples: Vec<_> = blocks.windows(2).filter_map(pair).collect();
    assert!(examples.len() >= 6);
    examples
}

/// Runs the calls that go to `server`.
fn run_calls(server: &Server, name: &str) {
    let port = port(name);
    let examples = examples();
    let calls: Vec<_> = examples
        .iter()
        .filter(|example| example.is_call() && example.port() == port)
        .collect();
    assert!(!calls.is_empty(), "no call of {name}");
    calls.iter().for_each(|example| example.run(server));
}

#[test]
fn first_call_is_the_standard_one() {
    let calls: Vec<_> = examples().into_iter().filter(Example::is_call).collect();
    let methods = ["tools/call", "mcp.callTool"];
    for (call, method) in calls.iter().zip(methods) {
        assert!(call.command.contains(method), "{}", call.position);
    }
}

#[tokio::test]
async fn requests_that_need_no_service() {
    for example in examples().iter().filter(|example| !example.is_call()) {
        let server = Server::start(server_of(example.port()), &[]).await;
        // The first probe of the service follows at once.
        server.wait_for_status("degraded").await;
        example.run(&server);
    }
}

mod n8n {
    mod real {
        use super::super::*;

        #[tokio::test]
        async fn calls() {
            let Some(n8n) = real::n8n() else { return };
            let key = ("N8N_API_KEY", &*n8n.api_key);
            let env = [("N8N_URL", &*n8n.url), key, LONG_CALLS];
            let server = Server::start("n8n-mcp-server", &env).await;
            run_calls(&server, "n8n-mcp-server");
        }
    }
}

mod openhands {
    mod real {
        use super::super::*;

        #[tokio::test]
        async fn calls() {
            let Some(openhands) = real::openhands() else {
                return;
            };
            let env = [
                ("OPENHANDS_URL", &*openhands.url),
                ("OPENHANDS_API_KEY", &*openhands.api_key),
                LONG_CALLS,
            ];
            let server = Server::start("openhands-mcp-server", &env).await;
            run_calls(&server, "openhands-mcp-server");
        }
    }
}

mod docker {
    mod real {
        use super::super::*;

        #[tokio::test]
        async fn calls() {
            let Some(host) = real::docker() else { return };
            let docker = Docker::connect_with_host(&host).unwrap();
            let example = "hello-world";
            remove(&docker, example).await;
            run(&docker, example).await;
            let env = [("DOCKER_HOST", &*host), LONG_CALLS];
            let server = Server::start("docker-mcp-server", &env).await;
            run_calls(&server, "docker-mcp-server");
            remove(&docker, example).await;
        }

        /// Starts the example container of `run-all`.
        async fn run(docker: &Docker, name: &str) {
            let body = ContainerCreateBody {
                image: Some("busybox:test".to_owned()),
                cmd: Some(["sleep", "600"].map(str::to_owned).into()),
                ..ContainerCreateBody::default()
            };
            let options = CreateContainerOptionsBuilder::new().name(name).build();
            docker.create_container(Some(options), body).await.unwrap();
            docker
                .start_container(name, None::<StartContainerOptions>)
                .await
                .unwrap();
        }

        async fn remove(docker: &Docker, name: &str) {
            let options = RemoveContainerOptionsBuilder::new().force(true).build();
            // Usually it does not exist.
            let _ = docker.remove_container(name, Some(options)).await;
        }
    }
}
