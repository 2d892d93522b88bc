//! Containers for one test, on the real engine. They are removed with it, also when it fails.

use std::ops::Deref;

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::SERVER;
use crate::harness::{Server, real, wait_until};

/// A real engine, a server in front of it, and the containers of one test.
pub(super) struct Lab {
    pub(super) docker: Docker,
    pub(super) host: String,
    pub(super) server: Server,
    pub(super) prefix: String,
    created: Vec<String>,
}

impl Lab {
    /// One on each engine that there is.
    pub(super) async fn everywhere() -> Vec<Self> {
        let mut labs = Vec::new();
        for host in real::docker_engines() {
            labs.push(Self::at(host, &[]).await);
        }
        labs
    }

    /// On this engine, with a server whose environment has more in it.
    pub(super) async fn at(host: String, env: &[(&str, &str)]) -> Self {
        let env = [env, &[("DOCKER_HOST", &host)]].concat();
        let server = Server::start(SERVER, &env).await;
        Self {
            docker: Docker::connect_with_host(&host).unwrap(),
            host,
            server,
            prefix: format!(
                "mcp-test-{}",
                &uuid::Uuid::new_v4().simple().to_string()[..8]
            ),
            created: Vec::new(),
        }
    }

    /// The name of the container that this test calls `name`.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The name of a container that the server under test is going to create.
    pub(super) fn adopt(&mut self, name: &str) -> String {
        let name = self.name(name);
        self.created.push(name.clone());
        name
    }

    /// Removes a container before its time.
    pub(super) async fn forget(&self, name: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
        let removal = self.docker.remove_container(name, Some(options.build()));
        removal.await.unwrap();
    }

    /// Creates a container; `more` is merged into the engine's own request body.
    pub(super) async fn create(&mut self, name: &str, command: &[&str], more: Value) -> String {
        let full = self.name(name);
        let mut body = json!({
            "Image": "busybox:test",
            "Cmd": command,
            "Labels": {"mcp-test": self.prefix},
            "HostConfig": {},
        });
        merge(&mut body, more);
        let body: ContainerCreateBody = serde_json::from_value(body).unwrap();
        let options = CreateContainerOptionsBuilder::new().name(&full).build();
        self.docker
            .create_container(Some(options), body)
            .await
            .unwrap();
        self.created.push(full.clone());
        full
    }

    /// What creates a container that is never started; it is removed with the others.
    pub(super) fn prepare(&mut self, name: &str) -> (CreateContainerOptions, ContainerCreateBody) {
        let full = self.name(name);
        let options = CreateContainerOptionsBuilder::new().name(&full).build();
        self.created.push(full);
        let body = json!({"Image": "busybox:test", "Cmd": ["true"]});
        (options, serde_json::from_value(body).unwrap())
    }

    /// Creates a container and starts it.
    pub(super) async fn run(&mut self, name: &str, command: &[&str], more: Value) -> String {
        let name = self.create(name, command, more).await;
        let start = self
            .docker
            .start_container(&name, None::<StartContainerOptions>);
        start.await.unwrap();
        name
    }

    /// Runs a container to its end.
    pub(super) async fn finish(&mut self, name: &str, command: &[&str], more: Value) -> String {
        let name = self.run(name, command, more).await;
        self.until(&name, "exited").await;
        name
    }

    /// Waits until the engine reports the state `wanted`.
    pub(super) async fn until(&self, name: &str, wanted: &str) {
        wait_until(wanted, async || self.state(name).await == wanted).await;
    }

    /// The state as the engine itself reports it.
    pub(super) async fn state(&self, name: &str) -> String {
        let details = self.docker.inspect_container(name, None).await.unwrap();
        details.state.unwrap().status.unwrap().to_string()
    }
}

/// `None` where there is no engine.
pub(super) async fn lab() -> Option<Lab> {
    Some(Lab::at(real::docker()?, &[]).await)
}

impl Deref for Lab {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let (docker, created) = (self.docker.clone(), std::mem::take(&mut self.created));
        // A destructor cannot wait within the test's own runtime.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let removing = created.into_iter().map(|name| {
                    let docker = docker.clone();
                    async move {
                        let options = RemoveContainerOptionsBuilder::new()
                            .force(true)
                            .v(true)
                            .build();
                        let _ = docker.remove_container(&name, Some(options)).await;
                    }
                });
                stream::iter(removing)
                    .for_each_concurrent(8, |one| one)
                    .await;
            });
        });
        let _ = removal.join();
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
