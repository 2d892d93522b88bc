//! Options of the Docker server, beside those of every server.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;

use crate::engine::EngineOptions;
use crate::policy::{Policy, Rule};

/// The engine, its timeout, and the operator's policy.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Docker")]
pub(crate) struct DockerOptions {
    #[command(flatten)]
    pub(crate) engine: EngineOptions,

    /// Seconds to wait for a reply of the engine; a stop also waits for its container.
    #[arg(long, env = "DOCKER_CLIENT_TIMEOUT", value_name = "SECONDS")]
    #[arg(default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    #[arg(hide_short_help = true)]
    pub docker_timeout: u64,

    /// Show environment values, labels, command lines and log lines that look like secrets.
    #[arg(long, env = "DOCKER_MCP_SHOW_SECRETS", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    pub show_secrets: bool,

    /// Run commands in containers (`execute_command`, in the toolset `exec`).
    #[arg(long, env = "DOCKER_MCP_ALLOW_EXEC", value_parser = FalseyValueParser::new())]
    pub allow_exec: bool,

    /// Do not offer tools that stop, remove or overwrite something.
    #[arg(long, env = "DOCKER_MCP_NO_DESTRUCTIVE", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    pub no_destructive: bool,

    /// Change only what this server has created, which it marks with a label.
    #[arg(long, env = "DOCKER_MCP_ONLY_CREATED", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    pub only_created: bool,

    /// Only these containers: name=shop-* or label=tier=web, separated by commas.
    #[arg(long, env = "DOCKER_MCP_ALLOW", value_name = "RULE")]
    #[arg(value_delimiter = ',', value_parser = Rule::parse)]
    #[arg(hide_short_help = true)]
    pub(crate) allow: Vec<Rule>,

    /// All containers except these, in the same form; overrides --allow.
    #[arg(long, env = "DOCKER_MCP_DENY", value_name = "RULE")]
    #[arg(value_delimiter = ',', value_parser = Rule::parse)]
    #[arg(hide_short_help = true)]
    pub(crate) deny: Vec<Rule>,

    /// Directories that builds and compose projects may be read from, separated by commas.
    #[arg(long, env = "DOCKER_MCP_PROJECT_DIR", value_name = "DIR")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub project_dir: Vec<PathBuf>,

    /// JSON file that sets any of these, and under `create` what new containers may use:
    /// privileged, host_namespaces, capabilities, binds.
    // Read once, with the command line: the list of tools depends on it.
    #[arg(long = "policy", env = "DOCKER_MCP_POLICY", value_name = "FILE")]
    #[arg(value_parser = Policy::read, value_hint = clap::ValueHint::FilePath)]
    #[arg(hide_short_help = true)]
    pub(crate) policy_file: Option<Policy>,
}

impl DockerOptions {
    /// The policy of the file and of the other options, merged: neither overrides the other.
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = self.policy_file.clone().unwrap_or_default();
        policy.allow.extend_from_slice(&self.allow);
        policy.deny.extend_from_slice(&self.deny);
        policy.directories.extend_from_slice(&self.project_dir);
        policy.only_created |= self.only_created;
        policy.no_destructive |= self.no_destructive;
        policy.exec |= self.allow_exec;
        policy
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.docker_timeout)
    }
}
