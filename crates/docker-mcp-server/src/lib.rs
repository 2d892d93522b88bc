//! MCP server for Docker containers.
//!
//! A call comes in as the arguments of one of the `tools`; every name in them is a
//! [`name::ContainerName`], which cannot change a URL path. The tool gets what it works on from
//! [`Docker`], as far as the `policy` lets it, and asks the `engine`, which knows where Docker
//! listens and puts its failures into words. What comes back is cleaned and
//! redacted (`upstream::redact`) before it goes out, and bounded: a container decides what its log and its
//! labels say, and how much of it.
//!
//! Only this crate talks to Docker.

mod compose;
mod diagnose;
mod docker;
mod engine;
mod events;
mod exit_code;
mod log;
pub mod name;
mod options;
mod policy;
mod prompts;
mod resources;
mod stats;
mod tools;
mod unix_time;

use std::sync::Arc;
use std::time::Duration;

use mcp_core::prompt::PromptSet;
use mcp_core::resource::ResourceSet;
use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::{Effect, ToolError, Toolset};

pub use docker::Docker;
pub use options::DockerOptions;

/// The Docker server, as [`mcp_serve::run`] takes it.
pub struct DockerServer;

impl mcp_serve::Product for DockerServer {
    const NAME: &'static str = "docker-mcp-server";
    const DESCRIPTION: &'static str =
        "Docker containers: list, inspect, start, stop, restart, and read their logs";
    const PORT: u16 = 3458;
    type Options = DockerOptions;
    type Service = Docker;

    fn tools(options: &DockerOptions) -> Toolset<Docker> {
        if options.policy().no_destructive {
            tools::all().retain(|tool| tool.effect != Effect::Destructive)
        } else {
            tools::all()
        }
    }

    fn resources() -> ResourceSet<Docker> {
        resources::all()
    }

    fn prompts() -> PromptSet<Docker> {
        prompts::all()
    }

    fn connect(options: DockerOptions) -> anyhow::Result<Docker> {
        let docker = Docker::new(&options)?;
        tracing::info!(
            "the Docker Engine is expected at {}",
            docker.engine.target()
        );
        Ok(docker)
    }
}

impl mcp_serve::Service for Docker {
    async fn probe(&self) -> Result<(), ToolError> {
        let version = self.engine.version(Duration::from_secs(3)).await?;
        tracing::debug!("Docker Engine {version}");
        Ok(())
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        events::Follower::new(self, server).run().await;
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.changes.clone())
    }
}
