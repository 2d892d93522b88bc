//! The environment of one test: a real engine, and containers that are removed even if the test fails.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{SERVER, succeed};
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
    /// One on each available engine.
    pub(super) async fn everywhere() -> Vec<Self> {
        let mut labs = Vec::new();
        for host in real::docker_engines() {
            labs.push(Self::at(host, &[]).await);
        }
        labs
    }

    /// On this engine, with a server that has these additional variables.
    pub(super) async fn at(host: String, env: &[(&str, &str)]) -> Self {
        let env = [env, &[("DOCKER_HOST", &host)]].concat();
        let server = Server::start(SERVER, &env).await;
        Self {
            docker: Docker::connect_with_host(&host).unwrap(),
            host,
            server,
            prefix: format!("mcp-test-{:08x}", uuid::Uuid::new_v4().as_fields().0),
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

    /// Removes a container before the end of the test.
    pub(super) async fn remove(&self, name: &str) {
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

    /// The request that creates a container without starting it; it is removed with the others.
    pub(super) fn prepare(&mut self, name: &str) -> (CreateContainerOptions, ContainerCreateBody) {
        let full = self.name(name);
        let options = CreateContainerOptionsBuilder::new().name(&full).build();
        self.created.push(full);
        let body = json!({"Image": "busybox:test", "Cmd": ["true"]});
        (options, serde_json::from_value(body).unwrap())
    }

    /// Runs a script of a shell.
    pub(super) async fn run_script(&mut self, name: &str, script: &str) -> String {
        self.run(name, &["sh", "-c", script], json!({})).await
    }

    /// Runs a container with a published port; its name and the port of the host.
    pub(super) async fn publish(&mut self, name: &str) -> (String, String) {
        let name = self.run(name, &["sleep", "600"], published("0")).await;
        let shown = succeed!(self, "get_container", {"container": name});
        let port = shown["ports"][0].as_str().unwrap();
        let port = &port[port.find(':').unwrap() + 1..port.find('-').unwrap()];
        (name, port.to_owned())
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

    /// Runs a program of Docker on this engine; its output, or what it wrote about its failure.
    pub(super) async fn command(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        let mut command = tokio::process::Command::new(program);
        let command = command.env("DOCKER_HOST", &self.host).args(arguments);
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    /// The state as the engine itself reports it.
    pub(super) async fn state(&self, name: &str) -> String {
        let details = self.docker.inspect_container(name, None).await.unwrap();
        details.state.unwrap().status.unwrap().to_string()
    }
}

/// `None` if there is no engine.
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
                let removing = created.iter().map(|name| {
                    let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
                    docker.remove_container(name, Some(options.build()))
                });
                let removing = stream::iter(removing).buffer_unordered(8);
                removing.for_each(async |_| ()).await;
            });
        });
        let _ = removal.join();
    }
}

/// The options that publish port 80 on this port of the host.
pub(super) fn published(port: &str) -> Value {
    let binding = json!({"HostIp": "127.0.0.1", "HostPort": port});
    json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [binding]}}})
}

/// A folder that is removed with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&dir).unwrap();
        Self(dir.canonicalize().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn str(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Writes a file, and creates its directory.
    pub(super) fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The arguments with some more.
pub(super) fn merged(mut arguments: Value, more: Value) -> Value {
    merge(&mut arguments, more);
    arguments
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
