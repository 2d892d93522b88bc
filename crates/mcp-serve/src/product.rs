//! A server as a program: its name, its options, its service and its tools.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mcp_core::method::MethodSet;
use mcp_core::prompt::PromptSet;
use mcp_core::registry::BoundItems;
use mcp_core::resource::ResourceSet;
use mcp_core::server::Identity;
use mcp_core::tool::{self, Effect, Output, ToolDefinition, ToolError, Toolset};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::Problem;
use crate::subcommand::Subcommand;

/// An MCP server, to be run as a program ([`Product::run`]) or to be mounted in another one
/// ([`Product::mount`]).
///
/// `S` is the service that its tools work on, `O` are the options that it has beside those of every
/// server. A server without either is made by [`Product::new`].
pub struct Product<S = (), O = NoOptions> {
    pub(crate) identity: Identity,
    pub(crate) instructions: String,
    pub(crate) port: u16,
    pub(crate) connect: fn(O) -> anyhow::Result<S>,
    pub(crate) tools: fn(&O) -> Toolset<S>,
    pub(crate) functions: BoundItems<ToolDefinition>,
    pub(crate) resources: ResourceSet<S>,
    pub(crate) prompts: PromptSet<S>,
    pub(crate) methods: MethodSet<S>,
    pub(crate) experimental: Map<String, Value>,
    pub(crate) configuration: Option<Configuration<S, O>>,
    pub(crate) commands: Vec<Arc<Subcommand<Self>>>,
}

/// The configuration of a product whose option `config` names a file of another form. `problems` and `unused` open
/// nothing.
pub struct Configuration<S, O> {
    /// Returns every problem with which the server does not start.
    pub problems: fn(&O) -> Vec<Problem>,
    /// Returns the problems of parts that the server leaves out.
    pub unused: fn(&O) -> Vec<Problem>,
    /// Makes the service that the command `doctor` asks, which keeps nothing.
    pub connect: fn(O) -> anyhow::Result<S>,
    /// True if processes trust each other by their session key, which must be a long one then.
    pub shares_key: fn(&O) -> bool,
    /// Makes the JSON Schema of the file of that of the options of every server, which are its table `server`.
    pub schema: fn(Value) -> Value,
}

/// No options beside those of every server.
#[derive(clap::Args)]
pub struct NoOptions {}

impl Product {
    /// A server without a service: all that its tools need comes with a call.
    ///
    /// `name` is that of its program, `version` is `env!("CARGO_PKG_VERSION")` of its crate, and
    /// `description` is one sentence for `--help`, `mcp.getServerInfo` and `initialize`.
    pub fn new(name: &str, version: &str, description: &str) -> Self {
        Self::with_service(name, version, description, |_| Ok(()))
    }
}

impl<S, O> Product<S, O> {
    /// A server with a service, which `connect` makes from its options. `connect` sends nothing to
    /// the service: a server starts in whatever state its service is. It fails if the options
    /// are unusable, and says which and why.
    pub fn with_service(
        name: &str,
        version: &str,
        description: &str,
        connect: fn(O) -> anyhow::Result<S>,
    ) -> Self {
        Self {
            identity: Identity {
                name: name.to_owned(),
                version: version.to_owned(),
                description: description.to_owned(),
            },
            instructions: String::new(),
            port: 3000,
            connect,
            tools: |_| Toolset::new(),
            functions: Vec::new(),
            resources: ResourceSet::new(),
            prompts: PromptSet::new(),
            methods: MethodSet::new(),
            experimental: Map::new(),
            configuration: None,
            commands: Vec::new(),
        }
    }

    /// Sets the instructions, which clients show to the model with the tools: how the tools belong
    /// together, in a few sentences, since they are paid in every conversation.
    #[must_use]
    pub fn instructions(self, instructions: &str) -> Self {
        let instructions = instructions.to_owned();
        Self {
            instructions,
            ..self
        }
    }

    /// Sets the port that it listens on by default, instead of 3000.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Sets the tools that these options leave.
    #[must_use]
    pub fn tools(self, tools: fn(&O) -> Toolset<S>) -> Self {
        Self { tools, ..self }
    }

    /// Adds a tool that is a function of its arguments. The doc comment of the argument struct is
    /// the description of the tool, and those of its fields describe the arguments. A tool that
    /// needs a service, reports progress or asks the client implements [`mcp_core::tool::Tool`].
    ///
    /// # Panics
    /// If the name is illegal or the struct has no doc comment; if the name is taken, when the tools are listed.
    #[must_use]
    pub fn function<A, R, T>(
        mut self,
        name: &str,
        effect: Effect,
        function: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Future<Output = Result<T, ToolError>> + Send + 'static,
        T: Output + 'static,
    {
        self.functions.push(tool::function(name, effect, function));
        self
    }

    /// Sets the resources.
    #[must_use]
    pub fn resources(self, resources: ResourceSet<S>) -> Self {
        Self { resources, ..self }
    }

    /// Sets the prompts.
    #[must_use]
    pub fn prompts(self, prompts: PromptSet<S>) -> Self {
        Self { prompts, ..self }
    }

    /// Sets methods of its own.
    #[must_use]
    pub fn methods(self, methods: MethodSet<S>) -> Self {
        Self { methods, ..self }
    }

    /// Sets capabilities that the specification does not know, by name.
    #[must_use]
    pub fn experimental(self, experimental: Map<String, Value>) -> Self {
        Self {
            experimental,
            ..self
        }
    }

    /// Sets how its configuration is read. Without it the command `doctor` makes the service as the server does, and
    /// tells the first problem.
    #[must_use]
    pub fn configuration(self, configuration: Configuration<S, O>) -> Self {
        let configuration = Some(configuration);
        Self {
            configuration,
            ..self
        }
    }

    /// Adds a command of its own, which works without the server: `PROGRAM NAME …`. The documentation of `C` is
    /// its help.
    #[must_use]
    pub fn command<C: Parser + 'static>(
        mut self,
        name: &'static str,
        run: fn(C) -> ExitCode,
    ) -> Self {
        let command = Subcommand::new(name, move |command, _| run(command));
        self.commands.push(Arc::new(command));
        self
    }
}
