//! The environment of one test: a real engine, and objects that are removed even if the test fails.

use std::collections::HashMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::models::{ContainerConfig, ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptions, CreateContainerOptionsBuilder,
    KillContainerOptions, ListContainersOptionsBuilder, ListImagesOptions, ListNetworksOptions,
    ListVolumesOptions, RemoveContainerOptionsBuilder, RemoveImageOptions, RemoveVolumeOptions,
    RenameContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{in_front_of, steps, succeed};
use crate::harness::{Server, real, wait_until};

/// A real engine, a server in front of it, and the objects of one test, whose names begin with its prefix.
pub(super) struct Lab {
    pub(super) docker: Docker,
    pub(super) host: String,
    pub(super) server: Server,
    pub(super) prefix: String,
}

impl Lab {
    /// On this engine, with a server that has these additional variables, in which PREFIX is that of the names.
    pub(super) async fn at(host: String, env: &[(&str, &str)]) -> Self {
        let prefix = format!("mcp-test-{:08x}", uuid::Uuid::new_v4().as_fields().0);
        let env = env.iter();
        let env: Vec<_> = env
            .map(|(name, value)| (*name, value.replace("PREFIX", &prefix)))
            .collect();
        let env: Vec<_> = env.iter().map(|(name, value)| (*name, &**value)).collect();
        let server = in_front_of(&host, &env).await;
        Self {
            docker: Docker::connect_with_host(&host).unwrap(),
            host,
            server,
            prefix,
        }
    }

    /// The name of the object that this test calls `name`.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Removes a container before the end of the test.
    pub(super) async fn remove(&self, name: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
        let removal = self.docker.remove_container(name, Some(options.build()));
        removal.await.unwrap();
    }

    /// Creates a container; `more` is merged into the engine's own request body.
    pub(super) async fn create(&self, name: &str, command: &[&str], more: Value) -> String {
        let (options, body) = self.prepare(name, merged(json!({"Cmd": command}), more));
        let created = self.docker.create_container(Some(options), body).await;
        created.unwrap();
        self.name(name)
    }

    /// The request that creates a container without starting it.
    pub(super) fn prepare(
        &self,
        name: &str,
        more: Value,
    ) -> (CreateContainerOptions, ContainerCreateBody) {
        let options = CreateContainerOptionsBuilder::new().name(&self.name(name));
        let options = options.build();
        let labels = json!({"mcp-test": self.prefix});
        let body = json!({"Image": "busybox:test", "Labels": labels, "HostConfig": {}});
        let body = serde_json::from_value(merged(body, more));
        (options, body.unwrap())
    }

    /// Makes a network; its id.
    pub(super) async fn network(&self, name: &str) -> String {
        let request = serde_json::from_value(json!({"Name": self.name(name)})).unwrap();
        self.docker.create_network(request).await.unwrap().id
    }

    /// Makes a volume with these options of its driver; its name.
    pub(super) async fn volume(&self, name: &str, options: Value) -> String {
        let request = json!({"Name": self.name(name), "DriverOpts": options});
        let request = serde_json::from_value::<VolumeCreateRequest>(request).unwrap();
        self.docker.create_volume(request).await.unwrap();
        self.name(name)
    }

    /// Makes an image `name:1` of a container; its id.
    pub(super) async fn image(&self, name: &str, container: &str) -> String {
        let commit = CommitContainerOptionsBuilder::new().container(container);
        let commit = commit.repo(&self.name(name)).tag("1").comment(name).build();
        let image = self
            .docker
            .commit_container(commit, ContainerConfig::default());
        image.await.unwrap().id
    }

    /// Removes the containers, images, networks and volumes of this test. Containers by their ids: a server of another
    /// test may be at work with the old one of a replacement, and rename it.
    async fn clean(docker: &Docker, prefix: &str) {
        let own = HashMap::from([("name", vec![prefix])]);
        let own = ListContainersOptionsBuilder::new().all(true).filters(&own);
        let listed = docker.list_containers(Some(own.build())).await;
        let listed = listed.into_iter().flatten().filter_map(|at| at.id);
        let removing = listed.map(|id| async move {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
            let _ = docker.remove_container(&id, Some(options.build())).await;
        });
        let removing = stream::iter(removing).buffer_unordered(8);
        removing.for_each(async |()| ()).await;
        let networks = docker.list_networks(None::<ListNetworksOptions>).await;
        for network in networks.into_iter().flatten().filter_map(|at| at.name) {
            if network.starts_with(prefix) {
                let _ = docker.remove_network(&network).await;
            }
        }
        let volumes = docker.list_volumes(None::<ListVolumesOptions>).await;
        let volumes = volumes
            .into_iter()
            .filter_map(|list| list.volumes)
            .flatten();
        for volume in volumes.filter(|volume| volume.name.starts_with(prefix)) {
            let none = None::<RemoveVolumeOptions>;
            let _ = docker.remove_volume(&volume.name, none).await;
        }
        let images = docker.list_images(None::<ListImagesOptions>).await;
        let tags = images
            .into_iter()
            .flatten()
            .flat_map(|image| image.repo_tags);
        for tag in tags.filter(|tag| tag.trim_start_matches("localhost/").starts_with(prefix)) {
            let none = None::<RemoveImageOptions>;
            let _ = docker.remove_image(&tag, none, None).await;
        }
    }

    /// The calls of a table, as [`steps`], in which `P-` begins the names of this test.
    pub(super) async fn steps(&self, table: &str, words: &[(&str, &str)]) {
        let prefix = self.name("");
        let words = [&[("P-", &*prefix)], words].concat();
        steps(self, table, &words).await;
    }

    /// Runs a script of a shell.
    pub(super) async fn run_script(&self, name: &str, script: &str) -> String {
        self.run(name, &["sh", "-c", script], json!({})).await
    }

    /// Runs a container with a published port; its name and the port of the host.
    pub(super) async fn publish(&self, name: &str) -> (String, String) {
        let name = self.sleep(name, published("0")).await;
        let address = self.address(&name).await;
        (name, address.rsplit(':').next().unwrap().to_owned())
    }

    /// The first published address of a container.
    pub(super) async fn address(&self, name: &str) -> String {
        let shown = succeed!(self, "get_container", {"container": name});
        let port = shown["ports"][0].as_str().unwrap();
        port[..port.find('-').unwrap()].to_owned()
    }

    /// Creates a container and starts it.
    pub(super) async fn run(&self, name: &str, command: &[&str], more: Value) -> String {
        let name = self.create(name, command, more).await;
        self.start(&name).await.unwrap();
        name
    }

    /// Starts a container; the engine's message if that fails.
    pub(super) async fn start(&self, name: &str) -> Result<(), String> {
        let none = None::<StartContainerOptions>;
        let started = self.docker.start_container(name, none).await;
        started.map_err(|error| error.to_string())
    }

    pub(super) async fn kill(&self, name: &str) {
        let none = None::<KillContainerOptions>;
        self.docker.kill_container(name, none).await.unwrap();
    }

    /// Runs a container that only goes on.
    pub(super) async fn sleep(&self, name: &str, more: Value) -> String {
        self.run(name, &["sleep", "600"], more).await
    }

    /// Runs a container to its end; a script ends late enough for its log.
    pub(super) async fn finish(&self, name: &str, command: &[&str], more: Value) -> String {
        let name = match command {
            ["sh", "-c", script] => {
                let script = ending_late(script);
                self.run(name, &["sh", "-c", &script], more).await
            }
            command => self.run(name, command, more).await,
        };
        self.until(&name, "exited").await;
        name
    }

    /// Waits until a word is in the log of a container so many times.
    pub(super) async fn until_written(&self, name: &str, word: &str, times: usize) {
        wait_until(word, async || {
            let log = succeed!(self, "get_container_logs", {"container": name});
            log["log"].as_str().unwrap().matches(word).count() >= times
        })
        .await;
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
        // Compose takes the files of a project in a folder above it for those of any project.
        let command = command.current_dir("/");
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    /// A container as the engine itself describes it; `null` if there is none.
    pub(super) async fn inspect(&self, name: &str) -> Value {
        let details = self.docker.inspect_container(name, None).await;
        serde_json::to_value(details.ok()).unwrap()
    }

    /// The whole id of a container.
    pub(super) async fn id(&self, name: &str) -> String {
        let details = self.inspect(name).await;
        details["Id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn rename(&self, name: &str, new: &str) {
        let options = RenameContainerOptionsBuilder::new().name(new).build();
        self.docker.rename_container(name, options).await.unwrap();
    }

    /// The state as the engine itself reports it.
    pub(super) async fn state(&self, name: &str) -> String {
        let details = self.inspect(name).await;
        details["State"]["Status"].as_str().unwrap().to_owned()
    }
}

/// On the main engine, with these variables; `None` without an engine or the programs of Docker.
pub(super) async fn lab_with(env: &[(&str, &str)]) -> Option<Lab> {
    real::compose_dir()?;
    Some(Lab::at(real::docker()?, env).await)
}

pub(super) async fn lab() -> Option<Lab> {
    lab_with(&[]).await
}

/// With a server that sees only the objects of this test, but for those with `hidden` in their names.
pub(super) async fn own_lab() -> Option<Lab> {
    let rules = [
        ("DOCKER_MCP_ALLOW", "name=PREFIX-*"),
        ("DOCKER_MCP_DENY", "name=*-hidden"),
    ];
    lab_with(&rules).await
}

/// One on each engine.
pub(super) async fn labs(env: &[(&str, &str)]) -> Vec<Lab> {
    let hosts = real::compose_dir().map(|_| real::docker_engines());
    let hosts = stream::iter(hosts.into_iter().flatten());
    hosts.then(|host| Lab::at(host, env)).collect().await
}

/// One on each engine, whose server may read the projects in this folder.
pub(super) async fn project_labs(folder: &Folder) -> Vec<Lab> {
    let directory = ("DOCKER_MCP_PROJECT_DIR", folder.str());
    let secrets = [("APP_WORD", "canary-11"), ("SSH_AUTH_SOCK", "/canary-11")];
    labs(&[directory, secrets[0], secrets[1]]).await
}

impl Deref for Lab {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let (docker, prefix) = (self.docker.clone(), self.prefix.clone());
        // A destructor cannot wait within the test's own runtime.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(Self::clean(&docker, &prefix));
        });
        let _ = removal.join();
    }
}

/// A script that ends a second after its last command, with the same code: a busy engine can lose what a container writes
/// right before its end.
pub(super) fn ending_late(script: &str) -> String {
    format!("trap 'code=$?; sleep 1; exit $code' EXIT; {script}")
}

/// The options that publish port 80 on this port of the host.
pub(super) fn published(port: &str) -> Value {
    let binding = json!({"HostIp": "127.0.0.1", "HostPort": port});
    json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [binding]}}})
}

/// The labels that compose gives a container of this service.
pub(super) fn of_compose(project: &str, service: &str) -> Value {
    json!({"com.docker.compose.config-hash": "1", "com.docker.compose.project": project,
        "com.docker.compose.service": service, "com.docker.compose.oneoff": "False",
        "com.docker.compose.container-number": "1"})
}

/// The compose file of a project of one service with these further lines, and with these lines at its end.
pub(super) fn web_project(service: &str, end: &str) -> String {
    format!(
        "services:\n  web:\n    image: busybox:test\n    command: [sleep, '600']\n    \
         stop_grace_period: 0s\n    {service}\n{end}"
    )
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
