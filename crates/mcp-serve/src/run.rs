//! Runs a server: from the command line to the last answer.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, FromArgMatches as _};
use mcp_core::registry::BoundItems;
use mcp_core::server::{Server, ServerFeatures, ServerItems, ServerSettings};
use mcp_core::tool::{ALL_TOOLSETS, DEFAULT_TOOLSET, Effect, ToolKind, Toolset};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::http::{Guard, HttpService, Limits, Listener, Workers};
use crate::key::{self, Key};
use crate::{Command, Options, Product, Secret, Service, Tokens, log, print, probe, stdio};

/// Time for the service to show its lists before the first request is answered.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the service to end everything that it has started.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// A server and its service, at work in the background.
pub struct Running<S> {
    /// The server, which answers the requests of all transports.
    pub server: Arc<Server>,
    service: Arc<S>,
    background: JoinSet<()>,
}

impl<S: Service, O: Args> Product<S, O> {
    /// Runs the program: the `main` of every server.
    pub fn run(self) -> ExitCode {
        let matches = self.command().get_matches();
        let command = match Command::<O>::from_arg_matches(&matches) {
            Ok(command) => command,
            Err(error) => error.exit(),
        };
        let name = self.identity.name.clone();
        match self.serve(command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // The log may not have been started.
                let _ = writeln!(std::io::stderr(), "{name}: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    /// Starts the server inside of another program, which mounts the returned [`HttpService`] in its
    /// router. `args` are options as on the command line, without the name of a program; the
    /// environment variables of the options count too.
    ///
    /// Must be called in a tokio runtime. Call [`Running::stop`] at the end.
    ///
    /// # Errors
    /// If an option or a token is unusable.
    pub async fn mount<A: Into<OsString> + Clone>(
        self,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<(HttpService, Running<S>)> {
        let command = self.command().no_binary_name(true);
        let command = Command::<O>::from_arg_matches(&command.try_get_matches_from(args)?)?;
        let (key, options) = (self.key(&command)?, command.common.clone());
        let mut running = self.start(command, &key).await?;
        Ok((running.http(&options, &key)?, running))
    }

    /// Makes the server and its service from a command line, without a transport.
    ///
    /// # Errors
    /// If an option is unusable.
    pub fn assemble(self, command: Command<O>, key: &Key) -> anyhow::Result<Running<S>> {
        let options = &command.common;
        let settings = ServerSettings {
            profile: options.error_profile.into(),
            call_timeout: options.call_timeout(),
            signer: key.signer(),
            spawn: |work| _ = tokio::spawn(work),
            random: key::random,
        };
        let tools = (self.tools)(&command.product);
        let (tools, functions) = choose(options, tools, self.functions)?;
        let service = Arc::new((self.connect)(command.product)?);
        let mut tools = tools.bind(&service);
        tools.extend(functions);
        let features = ServerFeatures {
            items: ServerItems {
                tools,
                resources: self.resources.bind(&service),
                prompts: self.prompts.bind(&service),
            },
            methods: self.methods.bind(&service),
            experimental: self.experimental,
            logging: S::LOGS,
            changes: service.changes(),
            relays: S::RELAYS,
        };
        let clock = Arc::new(SystemClock::new());
        Ok(Running {
            server: Arc::new(Server::new(self.identity, settings, features, clock)),
            service,
            background: JoinSet::new(),
        })
    }

    /// The command line, as it is parsed and as `--help` shows it.
    fn command(&self) -> clap::Command {
        let (name, port) = (self.identity.name.clone(), self.port.to_string());
        let about = self.identity.description.trim_end_matches('.');
        Command::<O>::command()
            .name(name)
            .version(self.identity.version.clone())
            .about(about.to_owned())
            .long_about(format!(
                "{about}\n\nAn MCP server. It answers POST /mcp on 127.0.0.1:{port}, or with --stdio the one client \
                 that started it. Every option can also be set by the environment variable named with it; \
                 the command line goes first."
            ))
            // Not `mut_arg`, which puts its argument last.
            .mut_args(|arg| match arg.get_id().as_str() {
                "port" => arg.default_value(port.clone()),
                _ => arg,
            })
            // Some of the values are secrets.
            .mut_args(|arg| arg.hide_env_values(true))
    }

    fn key(&self, command: &Command<O>) -> anyhow::Result<Key> {
        Key::load(&self.identity.name, &command.common)
    }

    fn serve(self, command: Command<O>) -> anyhow::Result<()> {
        let options = command.common.clone();
        if options.print_options {
            return print::options(self.command());
        }
        if options.print_tools || options.print_toolsets {
            let tools = (self.tools)(&command.product);
            if options.print_toolsets {
                return print::toolsets(&tools);
            }
            let (tools, functions) = choose(&options, tools, self.functions)?;
            let functions = functions.into_iter().map(|(definition, _)| definition);
            return print::tools(tools.definitions().into_iter().chain(functions));
        }
        log::start(&options.log)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let relays = S::RELAYS && !options.stdio;
        let workers = relays.then(Workers::start).transpose();
        let workers = workers.context("cannot start the threads of connections")?;
        let served = runtime.block_on(async {
            let (name, port) = (self.identity.name.clone(), self.port);
            let key = self.key(&command)?;
            let stop = stop_signal()?;
            let mut running = self.start(command, &key).await?;
            let (server, stopped) = (Arc::clone(&running.server), stop.clone());
            tokio::spawn(async move {
                stopped.cancelled().await;
                server.close();
            });
            let served = if options.stdio {
                stdio::serve(Arc::clone(&running.server), options.body_limit, stop).await
            } else {
                async {
                    let service = running.http(&options, &key)?;
                    let address = (options.bind, options.port.unwrap_or(port)).into();
                    let listener = Listener::bind(address, service).await?;
                    tracing::info!("{name} listens on http://{}/mcp", listener.address());
                    listener.serve(workers.as_ref(), stop).await;
                    Ok(())
                }
                .await
            };
            running.stop().await;
            served
        });
        // A blocking read of stdin cannot be interrupted; nothing waits for it.
        runtime.shutdown_background();
        served
    }

    /// Starts the service, and waits until it shows its lists.
    async fn start(self, command: Command<O>, key: &Key) -> anyhow::Result<Running<S>> {
        let mut running = self.assemble(command, key)?;
        let (server, service) = (&running.server, &running.service);
        let tasks = &mut running.background;
        tasks.spawn(probe::watch(Arc::clone(server), Arc::clone(service)));
        tasks.spawn(Arc::clone(service).run(Arc::clone(server)));
        let _ = tokio::time::timeout(READY_TIMEOUT, service.ready()).await;
        Ok(running)
    }
}

impl<S: Service> Running<S> {
    /// Stops the work in the background and ends everything that the service has started.
    pub async fn stop(mut self) {
        self.background.abort_all();
        let stopped = tokio::time::timeout(SHUTDOWN_GRACE, self.service.stop());
        if stopped.await.is_err() {
            tracing::warn!("not everything that was started here has ended");
        }
    }

    /// The paths of the server, with its tokens and limits.
    fn http(&mut self, options: &Options, key: &Key) -> anyhow::Result<HttpService> {
        let secret = Secret::new(options.token.clone(), options.token_file.clone());
        let token = secret
            .get()
            .context("cannot read the file named by --token-file")?;
        let token = token.unwrap_or_default();
        let tokens = Arc::new(Tokens::parse(&token)?);
        // An empty token file is an error, not a server without a token.
        anyhow::ensure!(
            !tokens.is_empty() || !secret.is_configured(),
            "there is no token in what --token or --token-file gives"
        );
        if tokens.is_empty() && !options.bind.is_loopback() && !options.insecure_no_auth {
            anyhow::bail!(
                "--bind {} lets other machines in: set a token (--token, MCP_TOKEN), or say --insecure-no-auth",
                options.bind
            );
        }
        let limits = Limits {
            max_body_bytes: options.body_limit,
            max_requests_per_second: options.rate_limit,
            max_streams_per_client: options.stream_limit,
            ..Limits::default()
        };
        if secret.is_file() {
            let following = Arc::clone(&tokens).follow(Arc::new(secret), token);
            self.background.spawn(following);
        }
        let mut registry = Registry::default();
        self.service.register(&mut registry);
        let guard = Guard::new(tokens, &options.allowed_hosts);
        let server = Arc::clone(&self.server);
        Ok(HttpService::new(
            server,
            guard,
            key.signer(),
            limits,
            registry,
        ))
    }
}

/// Returns the tools that `--toolsets` and `--read-only` leave.
fn choose<S: Send + Sync + 'static>(
    options: &Options,
    tools: Toolset<S>,
    mut functions: BoundItems<ToolKind>,
) -> anyhow::Result<(Toolset<S>, BoundItems<ToolKind>)> {
    let groups = tools.groups();
    let mut chosen = options.toolsets.clone();
    // Functions are in the default toolset, which may have no other tools.
    if !functions.is_empty() {
        if !chosen
            .iter()
            .any(|name| name == ALL_TOOLSETS || name == DEFAULT_TOOLSET)
        {
            functions.clear();
        }
        chosen.retain(|name| name != DEFAULT_TOOLSET || groups.contains(&DEFAULT_TOOLSET));
    }
    let tools = tools.choose(&chosen).map_err(|unknown| {
        let names = groups.join(", ");
        anyhow::anyhow!("--toolsets: there is no toolset {unknown:?}; there are all, {names}")
    })?;
    Ok(if options.read_only {
        functions.retain(|(tool, _)| tool.effect == Effect::ReadOnly);
        (tools.read_only(), functions)
    } else {
        (tools, functions)
    })
}

/// Cancelled by the first SIGTERM, SIGINT or SIGHUP; the second one ends the process at once.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stop.is_cancelled() {
                    std::process::exit(1);
                }
                tracing::info!("stopping");
                stop.cancel();
            }
        });
    }
    Ok(stop)
}
