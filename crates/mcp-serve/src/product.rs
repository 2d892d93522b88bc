//! What makes one server different from the next.

use std::future::Future;
use std::sync::Arc;

use mcp_core::method::MethodSet;
use mcp_core::prompt::PromptSet;
use mcp_core::resource::ResourceSet;
use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::{ToolError, Toolset};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};

/// One server of the workspace: its name, its options, its service and its tools.
///
/// `main` is then `mcp_serve::run::<P>()`.
pub trait Product: 'static {
    /// The name that it gives itself, which is also its binary's.
    const NAME: &'static str;
    /// One sentence for `--help`, `mcp.getServerInfo` and `initialize`.
    const DESCRIPTION: &'static str;
    /// The port that it listens on by default.
    const PORT: u16;
    /// What can be configured beside what every server has. Every flag has an environment variable.
    type Options: clap::Args;
    /// What the tools work on.
    type Service: Service;

    /// The tools that these options leave, without a service: `--print-tools` needs none.
    fn tools(options: &Self::Options) -> Toolset<Self::Service>;

    /// The resources, without a service.
    fn resources() -> ResourceSet<Self::Service> {
        ResourceSet::new()
    }

    /// The prompts, without a service.
    fn prompts() -> PromptSet<Self::Service> {
        PromptSet::new()
    }

    /// Methods of its own, without a service.
    fn methods() -> MethodSet<Self::Service> {
        MethodSet::new()
    }

    /// Capabilities that the specification does not know, by name.
    fn experimental() -> Map<String, Value> {
        Map::new()
    }

    /// Makes the service from its options. Does not talk to it: a server starts whatever state its
    /// service is in.
    ///
    /// # Errors
    /// When the options themselves are unusable; says which and why.
    fn connect(options: Self::Options) -> anyhow::Result<Self::Service>;
}

/// The service behind a server.
pub trait Service: Send + Sync + 'static {
    /// Asks the service whether it would serve a call now, within a few seconds.
    ///
    /// # Errors
    /// The reason why it would not, in words for the operator and the model.
    fn probe(&self) -> impl Future<Output = Result<(), ToolError>> + Send;

    /// Its work in the background, from the start to the stop of the server: keeping up with the
    /// service, and with it what `server` offers ([`Server::publish`]).
    fn run(self: Arc<Self>, server: Arc<Server>) -> impl Future<Output = ()> + Send {
        let _ = server;
        std::future::ready(())
    }

    /// Ends what it has started. The server waits for it, but not for long.
    fn stop(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Where the service announces that lists or resources have changed; `None` if they never do.
    fn changes(&self) -> Option<ChangeNotifier> {
        None
    }

    /// Completes when it can show what it has to offer. The server waits for it before it answers
    /// anybody, but not for long.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// True if it passes calls on to other servers, and what they offer to clients.
    const RELAYS: bool = false;

    /// Registers its own metrics, which `/metrics` shows beside those of the server.
    fn register(&self, registry: &mut Registry) {
        let _ = registry;
    }

    /// True if calls send log messages to the client.
    const LOGS: bool = false;
}
