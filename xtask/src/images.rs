//! The part `images` of `cargo xtask nightly`: starts the project of docker-compose.yml on an engine without a
//! network, and checks that every server answers and is isolated.
//!
//! The images are made of this machine's programs, since only a registry has the base image of the Dockerfile, and the
//! services behind the servers: the servers must start without them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::console::Heartbeat;
use crate::install::unavailable;
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir};
use crate::process::Program;
use crate::secrets;
use crate::services::Service as _;
use crate::services::docker::cli::{Cli, IMAGE};
use crate::services::docker::{self, DOCKER_26};

const WHO: &str = "images";

const PROJECT: &str = "check";

/// The file of root certificates on most systems.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The servers must answer in this time, on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The servers with their ports, tools that they must list, and mounts. The gateway finds the others by their names in
/// the network of the project.
const SERVERS: [(&str, u16, &[&str], &[&str]); 4] = [
    ("n8n-mcp-server", 3456, &["list_workflows"], &[]),
    ("openhands-mcp-server", 3457, &["run_task"], &[]),
    (
        "docker-mcp-server",
        3458,
        &["list_containers"],
        &["/var/run/docker.sock"],
    ),
    (
        "mcp-gateway",
        3455,
        &[
            "n8n__list_workflows",
            "openhands__run_task",
            "docker__list_containers",
        ],
        &["/gateway.toml"],
    ),
];

/// Builds the images and checks the project.
pub(crate) fn check(layout: &Layout) -> anyhow::Result<ExitCode> {
    if let Some(obstacle) = DOCKER_26.obstacle(layout) {
        bail!(unavailable(obstacle));
    }
    DOCKER_26.install(layout)?;
    let compose = docker::install_plugins(layout)?.join("docker-compose");
    let programs = build(layout)?;
    let instance = Instance::lock(layout, "compose", Purpose::Test, 0)?;
    instance.clear()?;
    let engine = DOCKER_26.start(layout, &instance)?;
    let project = Project {
        layout,
        cli: Cli::new(layout, &instance)?,
        compose,
        socket: docker::socket(&instance),
        token: secrets::random()?,
    };
    let result = project.check(&programs);
    drop(engine);
    instance.clear()?;
    result.map(|()| ExitCode::SUCCESS)
}

/// Builds programs that need no C library beside them; returns their folder.
fn build(layout: &Layout) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let flags = format!(
        r#"target.{target}.rustflags=["-C","target-feature=+crt-static","-C","strip=symbols"]"#
    );
    let cargo = Program::new("cargo")?
        .words("build --locked --target")
        .args([&target, "--config", &flags])
        .args(
            SERVERS
                .iter()
                .flat_map(|(server, ..)| ["--package", server]),
        )
        .dir(&layout.root);
    cargo.run(
        &layout.shutdown,
        Heartbeat::start(WHO, "building the servers for images"),
    )?;
    Ok(layout.target.join(target).join("debug"))
}

/// Returns the image of a program, as in docker-compose.yml.
fn image(program: &str) -> String {
    format!("mcp-servers/{program}:local")
}

/// Returns the name that compose gives to the container of a service.
fn container(server: &str) -> String {
    format!("{PROJECT}-{server}-1")
}

/// A project on an engine.
struct Project<'a> {
    layout: &'a Layout,
    cli: Cli,
    compose: PathBuf,
    socket: PathBuf,
    token: String,
}

impl Project<'_> {
    fn check(&self, programs: &std::path::Path) -> anyhow::Result<()> {
        for (server, ..) in SERVERS {
            let root = self.layout.backends().join("images").join(server);
            create_dir(&root.join("etc/ssl/certs"))?;
            fs::copy(programs.join(server), root.join("server"))?;
            fs::copy(
                CERTIFICATES,
                root.join(CERTIFICATES.trim_start_matches('/')),
            )?;
            let changes = ["USER 65532:65532", r#"ENTRYPOINT ["/server"]"#];
            self.cli.import(&root, &image(server), &changes)?;
        }
        let up = ["up", "--detach", "--no-build", "--pull", "never"];
        self.compose(&[&up[..], &SERVERS.map(|(server, ..)| server)].concat())?;
        for (server, port, tools, mounts) in SERVERS {
            let answers = self.check_answers(port, tools);
            answers
                .and_then(|()| self.check_isolation(server, mounts))
                .context(server)?;
        }
        // The server with the socket can use it, through the gateway.
        let list = json!({"name": "docker__list_containers", "arguments": {"project": PROJECT}});
        let response = self.post(3455, Some(&self.token), "tools/call", &list)?;
        for (server, ..) in SERVERS {
            ensure!(
                response.contains(&container(server)),
                "{server} is not listed: {response:.300}"
            );
        }
        self.compose(&["down", "--volumes"])?;
        let left = self.cli.run(&["ps", "--all", "--quiet"])?;
        ensure!(left.is_empty(), "`down` has left containers");
        print_as!(
            WHO,
            "ok       the project starts, each server isolated as in docker-compose.yml"
        );
        Ok(())
    }

    fn compose(&self, args: &[&str]) -> anyhow::Result<()> {
        let mut compose = self.cli.program(&self.compose);
        compose.args(["--project-name", PROJECT, "--file"]);
        compose
            .arg(self.layout.root.join("docker-compose.yml"))
            .args(args);
        compose.envs(
            ["MCP_TOKEN", "OPENHANDS_API_KEY", "OH_SECRET_KEY"].map(|name| (name, &self.token)),
        );
        compose.env("DOCKER_GID", fs::metadata(&self.socket)?.gid().to_string());
        compose.env("DOCKER_SOCKET", &self.socket);
        compose.envs([("N8N_API_KEY", ""), ("N8N_MCP_TOKEN", "")]);
        let output = compose.output().context("compose")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "compose: {}", error.trim());
        Ok(())
    }

    /// Waits until the server behind a published port lists `tools`, and checks that it wants the token.
    fn check_answers(&self, port: u16, tools: &[&str]) -> anyhow::Result<()> {
        let mut response = String::new();
        let is_listed = self.layout.shutdown.wait_until(ANSWER_TIMEOUT, || {
            let result = self.post(port, Some(&self.token), "tools/list", &json!({}));
            response = result.unwrap_or_else(|error| error.to_string());
            tools
                .iter()
                .all(|tool| response.contains(&format!(r#""name":"{tool}""#)))
        });
        ensure!(is_listed, "it does not list {tools:?}: {response:.300}");
        let refused = self.post(port, None, "tools/list", &json!({}));
        let is_refused = refused.is_err_and(|error| error.to_string().contains("401"));
        ensure!(is_refused, "it answers without the token");
        Ok(())
    }

    /// Posts a request to a published port from inside of the engine's network.
    fn post(
        &self,
        port: u16,
        token: Option<&str>,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<String> {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let url = format!("http://127.0.0.1:{port}/mcp");
        let authorization = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut args = vec!["run", "--rm", "--network", "host", IMAGE];
        args.extend("timeout 30 wget -q -O - --header".split(' '));
        args.push("Content-Type: application/json");
        args.extend(authorization.iter().flat_map(|value| ["--header", value]));
        args.extend(["--post-data", &message, &url]);
        self.cli.run(&args)
    }

    /// Errors if the container has more than it needs: another user than 65532, capabilities, writable files, other
    /// mounts and ports, or an image with a base.
    fn check_isolation(&self, server: &str, mounts: &[&str]) -> anyhow::Result<()> {
        let inspect = |args: &[&str]| -> anyhow::Result<Value> {
            Ok(serde_json::from_str(&self.cli.run(args)?)?)
        };
        let (inspected, image) = (inspect(&["inspect", &container(server)])?, image(server));
        let layers = inspect(&["image", "inspect", &image])?[0]["RootFS"]["Layers"]
            .as_array()
            .map(Vec::len);
        let container = &inspected[0];
        let found: Vec<_> = container["Mounts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|mount| &mount["Destination"])
            .collect();
        let ports = container["HostConfig"]["PortBindings"]
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values);
        let addresses: Vec<_> = ports
            .filter_map(Value::as_array)
            .flatten()
            .map(|address| &address["HostIp"])
            .collect();
        let host = &container["HostConfig"];
        for (what, found, expected) in [
            ("image", &container["Config"]["Image"], json!(image)),
            ("user", &container["Config"]["User"], json!("65532:65532")),
            ("read-only", &host["ReadonlyRootfs"], json!(true)),
            ("privileged", &host["Privileged"], json!(false)),
            ("dropped", &host["CapDrop"], json!(["ALL"])),
            ("added", &host["CapAdd"], Value::Null),
            (
                "options",
                &host["SecurityOpt"],
                json!(["no-new-privileges:true"]),
            ),
            ("processes", &host["PidsLimit"], json!(128)),
            ("memory", &host["Memory"], json!(256 << 20)),
            ("restarts", &container["RestartCount"], json!(0)),
            ("mounts", &json!(found), json!(mounts)),
            (
                "addresses of ports",
                &json!(addresses),
                json!(["127.0.0.1"]),
            ),
            ("layers", &json!(layers), json!(1)),
        ] {
            ensure!(*found == expected, "{what}: {found}, not {expected}");
        }
        // What the kernel says of it, from a container in the same namespace of processes.
        let processes = format!("container:{}", self::container(server));
        let status = self.cli.run(&[
            "run",
            "--rm",
            "--pid",
            &processes,
            IMAGE,
            "cat",
            "/proc/1/status",
        ])?;
        for line in [
            "Uid:\t65532\t65532\t65532\t65532",
            "CapPrm:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
        ] {
            ensure!(
                status.lines().any(|found| found == line),
                "no `{line}` in {status}"
            );
        }
        Ok(())
    }
}
