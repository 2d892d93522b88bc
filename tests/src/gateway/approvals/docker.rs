//! Calls that need a person, on a real engine: a container is removed only after a yes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder,
};
use mcp_client::{Client, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::env::{Folder, Gateway};
use super::Operated;
use crate::harness::{assert_contains, binary, real, wait_until};

/// A container that is never started, on a real engine. Removed with [`Container::end`].
struct Container {
    docker: Docker,
    name: String,
}

impl Container {
    async fn create(host: &str) -> Self {
        let docker = Docker::connect_with_host(host).unwrap();
        let name = format!("mcp-test-{}", uuid::Uuid::new_v4().simple());
        let body = json!({"Image": "busybox:test", "Cmd": ["true"], "Labels": {"mcp-test": name}});
        let body: ContainerCreateBody = serde_json::from_value(body).unwrap();
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        docker.create_container(Some(options), body).await.unwrap();
        Self { docker, name }
    }

    async fn is_there(&self) -> bool {
        let shown = self
            .docker
            .inspect_container(&self.name, None::<InspectContainerOptions>);
        shown.await.is_ok()
    }

    fn arguments(&self) -> Value {
        json!({"container": self.name, "confirm": self.name})
    }

    async fn end(self) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        let _ = self
            .docker
            .remove_container(&self.name, Some(options))
            .await;
    }
}

/// A gateway in front of the server of this engine, with these lines in its file.
async fn gateway(host: &str, lines: &str) -> Operated {
    let server = binary("docker-mcp-server");
    let folder = Folder::new();
    let store = folder.path("events.db");
    let config = format!(
        "{lines}\n[backends.docker]\ncommand = [{server:?}, \"--stdio\", \"--toolsets\", \"all\"]\n\
         env = {{ DOCKER_HOST = {host:?} }}\n"
    );
    let gateway = Gateway::start(folder, &config, &["--events", &store]).await;
    gateway.until("docker", "running").await;
    Operated(gateway)
}

const TOOL: &str = "docker__remove_container";

/// Removes the container in the background.
fn remove(gateway: &Operated, container: &Container) -> JoinHandle<String> {
    let params = json!({"name": TOOL, "arguments": container.arguments()});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let url = gateway.0.server.url.clone();
    tokio::spawn(async move {
        let request = crate::harness::http_client().post(url);
        let request = request.header("content-type", "application/json");
        let reply = request.body(body.to_string()).send().await.unwrap();
        reply.text().await.unwrap()
    })
}

async fn until_listed(gateway: &Operated) {
    wait_until("the tools", async || {
        let names = gateway.0.tool_names().await;
        names.iter().any(|name| name == TOOL)
    })
    .await;
}

#[tokio::test]
async fn container_is_removed_only_after_the_yes_of_an_operator() {
    for host in real::docker_engines() {
        let lines = "[approvals]\nconfirm = [\"docker__remove_*\"]\napprove = \"operator\"\n";
        let approved = gateway(&host, lines).await;
        let expiring = gateway(&host, &format!("{lines}timeout = \"2s\"\n")).await;
        until_listed(&approved).await;
        until_listed(&expiring).await;
        let container = Container::create(&host).await;

        let answer = remove(&expiring, &container).await.unwrap();
        assert_contains(&answer, "no operator has decided in time");
        assert!(container.is_there().await);

        let call = remove(&approved, &container);
        let id = approved.waiting().await;
        let (_, shown) = approved.command(&["show", &id]).await;
        assert_contains(&shown, &container.name);
        assert_eq!(approved.command(&["refuse", &id]).await.0, 0);
        assert_contains(&call.await.unwrap(), "who has refused this call");
        assert!(container.is_there().await);

        let call = remove(&approved, &container);
        let id = approved.waiting().await;
        assert!(container.is_there().await);
        assert_eq!(approved.command(&["approve", &id]).await.0, 0);
        assert_contains(&call.await.unwrap(), "\"isError\":false");
        assert!(!container.is_there().await);
        container.end().await;
    }
}

/// Answers each question, and counts them.
struct User {
    says: Value,
    questions: AtomicUsize,
}

impl Handler for User {
    fn request(&self, _: &str, _: Option<&RawValue>) -> Reply {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let answer = to_raw_value(&self.says).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

#[tokio::test]
async fn container_is_removed_only_after_the_yes_of_the_user() {
    for host in real::docker_engines() {
        let lines = "[approvals]\nconfirm = [\"docker__remove_*\"]\n";
        let gateway = gateway(&host, lines).await;
        until_listed(&gateway).await;
        let container = Container::create(&host).await;
        let call = json!({"name": TOOL, "arguments": container.arguments()});
        for (says, is_removed) in [
            (json!({"action": "decline"}), false),
            (json!({"action": "accept", "content": {}}), false),
            (
                json!({"action": "accept", "content": {"confirm": true}}),
                true,
            ),
        ] {
            let questions = AtomicUsize::new(0);
            let user = Arc::new(User { says, questions });
            let handler = Arc::clone(&user) as Arc<dyn Handler>;
            let client: Client = gateway.0.client(EraChoice::Legacy, Some(handler)).await;
            let answer = client.request("tools/call", &call).await.unwrap();
            assert_eq!(!container.is_there().await, is_removed, "{answer}");
            // The server asks as well, if the gateway lets the call through.
            let asked = user.questions.load(Ordering::Relaxed);
            assert_eq!(asked, 1 + usize::from(is_removed), "{answer}");
        }
        container.end().await;
    }
}

#[tokio::test]
async fn tool_of_a_real_server_is_held_until_it_is_approved() {
    for host in real::docker_engines() {
        let gateway = gateway(&host, "pins = \"hold\"\nfirst_sight = \"hold\"\n").await;
        let container = Container::create(&host).await;
        let answer = remove(&gateway, &container).await.unwrap();
        assert_contains(&answer, "is held back");
        assert!(container.is_there().await);
        let folder = &gateway.0.folder;
        let store = folder.path("events.db");
        let (code, text) = folder.command(&store, &["pins", "approve", TOOL]).await;
        assert_eq!(code, 0, "{text}");
        until_listed(&gateway).await;
        assert!(container.is_there().await);
        let answer = remove(&gateway, &container).await.unwrap();
        assert_contains(&answer, "\"isError\":false");
        assert!(!container.is_there().await);
        container.end().await;
    }
}
