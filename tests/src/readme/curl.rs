//! The `curl` lines of the README are run, and answered as it shows.

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

/// A `curl` and the answer that is shown below it.
struct Shown {
    line: usize,
    command: String,
    answer: Value,
}

impl Shown {
    /// True for a call of a tool, which needs the service.
    fn is_call(&self) -> bool {
        self.command.contains(" -d ")
    }

    /// The default port that it goes to.
    fn port(&self) -> &str {
        let (_, rest) = self
            .command
            .split_once("localhost:")
            .expect("localhost:PORT");
        rest.split('/').next().unwrap()
    }

    fn run(&self, server: &Server) {
        let place = format!("README.md:{}", self.line);
        let free = server
            .url
            .strip_suffix("/mcp")
            .unwrap()
            .rsplit(':')
            .next()
            .unwrap();
        let command = self
            .command
            .replace(&format!(":{}/", self.port()), &format!(":{free}/"));
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

fn shown() -> Vec<Shown> {
    let blocks = blocks();
    let pair = |pair: &[Block]| {
        let [command, answer] = pair else { return None };
        let is_curl = command.language == "sh" && command.text.starts_with("curl ");
        is_curl.then(|| Shown {
            line: command.line,
            command: command.text.clone(),
            answer: serde_json::from_str(&answer.text).expect("an answer"),
        })
    };
    let shown: Vec<_> = blocks.windows(2).filter_map(pair).collect();
    assert!(shown.len() >= 5);
    shown
}

/// Runs the calls that go to `server`.
fn run_calls(server: &Server, name: &str) {
    let port = port(name);
    let shown = shown();
    let calls: Vec<_> = shown
        .iter()
        .filter(|shown| shown.is_call() && shown.port() == port)
        .collect();
    assert!(!calls.is_empty(), "no call of {name}");
    calls.iter().for_each(|shown| shown.run(server));
}

#[tokio::test]
async fn what_needs_no_service() {
    for shown in shown().iter().filter(|shown| !shown.is_call()) {
        let server = Server::start(server_of(shown.port()), &[]).await;
        // Its first look at the service follows at once.
        server.wait_for_status("degraded").await;
        shown.run(&server);
    }
}

mod n8n {
    mod real {
        use super::super::*;

        #[tokio::test]
        async fn calls() {
            let Some(n8n) = real::n8n() else { return };
            let env = [("N8N_URL", &*n8n.url), ("N8N_API_KEY", &*n8n.api_key)];
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
            let server = Server::start("docker-mcp-server", &[("DOCKER_HOST", &host)]).await;
            run_calls(&server, "docker-mcp-server");
            remove(&docker, example).await;
        }

        /// The container that `run-all` makes on an engine of its own.
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
            // It is not there as a rule.
            let _ = docker.remove_container(name, Some(options)).await;
        }
    }
}
