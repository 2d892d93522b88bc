//! Runs a server: from the command line to the last answer.

use std::ffi::OsString;
use std::io;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::{OsStr, Resettable};
use clap::{Args, CommandFactory as _, FromArgMatches as _};
use mcp_core::server::{Server, ServerFeatures, ServerItems, ServerSettings};
use mcp_core::tool::Toolset;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::SetOption;
use crate::http::{Extras, Guard, HttpService, Listener, Page};
use crate::key::Key;
use crate::options::ConfiguredTokens;
use crate::telemetry::Telemetry;
use crate::tools::ChosenTools;
use crate::{
    Command, Options, Problem, Product, Service, ServiceParts, SharedSessions, Tls, config, key,
    log, print, stdio,
};

/// Timeout of [`Service::ready`] before the first request is answered.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// The same where other processes serve the clients meanwhile.
const SHARED_READY_TIMEOUT: Duration = Duration::from_secs(15);

/// Characters of a session key by which processes trust each other; with hexadecimal digits these are 128 bits.
const MIN_SHARED_KEY_CHARS: usize = 32;

/// Timeout of [`Service::stop`].
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// A server and its service, which run in the background.
pub struct Running<S> {
    /// The server, which answers the requests of all transports.
    pub server: Arc<Server>,
    service: Arc<S>,
    parts: ServiceParts,
    background: JoinSet<()>,
}

impl<S: Service, O: Args + 'static> Product<S, O> {
    /// Runs the program: the `main` of every server.
    pub fn run(self) -> ExitCode {
        let mut args: Vec<_> = std::env::args_os().collect();
        let commands = self.subcommands();
        let named = args.get(1).map(|first| {
            let mut commands = commands.iter();
            commands.find(|command| command.has_name(first))
        });
        if let Some(command) = named.flatten() {
            args.remove(0);
            let name = self.identity.name.clone();
            return command.run(self, &name, &args);
        }
        let applied = config::apply(self.command_line(), &args);
        if !applied.problems.is_empty() {
            return config::refuse(&self.identity.name, &applied.problems);
        }
        let settings = applied.command.clone();
        let mut command = config::without_values(applied.command);
        if args.iter().any(|arg| arg == "-h") {
            command = command.mut_args(|arg| arg.hide_env(true));
        }
        let matches = match command.clone().try_get_matches_from(&args) {
            Ok(matches) => matches,
            Err(error) => config::with_variable(error, &command, &args).exit(),
        };
        let settings = config::settings(&settings);
        let options = config::set_options(&settings, &matches, &applied.places);
        let command = match Command::<O>::from_arg_matches(&matches) {
            Ok(command) => command,
            Err(error) => error.exit(),
        };
        if let Some(configuration) = &self.configuration {
            let problems = (configuration.problems)(&command.product);
            if !problems.is_empty() {
                return config::refuse(&self.identity.name, &problems);
            }
        }
        let name = self.identity.name.clone();
        match self.serve(command, options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => config::fail(&name, &error),
        }
    }

    /// Serves with these options of its own, and with those of every server in `args`: the command line and the
    /// variables of the environment do not count.
    pub fn serve_with<'a>(self, options: O, args: impl IntoIterator<Item = &'a str>) -> ExitCode {
        let command = Options::augment_args(clap::Command::new("options").no_binary_name(true));
        let command = command.mut_args(|arg| arg.env(Resettable::<OsStr>::Reset));
        let parsed = command.try_get_matches_from(args);
        let name = self.identity.name.clone();
        let served = parsed
            .and_then(|matches| Options::from_arg_matches(&matches))
            .map_err(anyhow::Error::from)
            .and_then(|common| {
                let product = options;
                self.serve(Command { product, common }, Vec::new())
            });
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => config::fail(&name, &error),
        }
    }

    /// Starts the server inside of another program, which mounts the returned [`HttpService`] in its
    /// router. `args` are options as on the command line, without the name of a program; the
    /// environment variables of the options count too.
    ///
    /// Must be called in a tokio runtime. Writes to the `tracing` subscriber of that program. Call
    /// [`Running::stop`] at the end.
    ///
    /// # Errors
    /// If an option or a token is unusable.
    pub async fn mount<A: Into<OsString> + Clone>(
        self,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<(HttpService, Running<S>)> {
        let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
        let command = self.options_command().no_binary_name(true);
        let applied = config::apply(command, &args);
        if let Some(problem) = applied.problems.first() {
            anyhow::bail!("{problem}");
        }
        let command = config::without_values(applied.command).try_get_matches_from(args)?;
        let command = Command::<O>::from_arg_matches(&command)?;
        let (key, options) = (self.key(&command)?, command.common.clone());
        anyhow::ensure!(
            options.tls()?.is_none(),
            "--tls-cert has no effect on a mounted server: TLS is that of the program around it"
        );
        let tokens = options.tokens()?;
        let mut running = self.start(command, &key).await?;
        Ok((running.http(&options, tokens, &key, None), running))
    }

    /// Creates the server and its service from a command line, without a transport.
    ///
    /// # Errors
    /// If an option is unusable.
    pub fn assemble(self, command: Command<O>, key: &Key) -> anyhow::Result<Running<S>> {
        let options = &command.common;
        let settings = ServerSettings {
            error_codes: options.error_profile,
            call_timeout: options.call_timeout(),
            signer: key.signer(),
            random: key::handle,
        };
        let tools = ChosenTools::new(self.all_tools(&command.product), options)?;
        let service = Arc::new((self.connect)(command.product).map_err(config::unusable)?);
        let (tools, why_missing) = tools.bind(&service);
        let parts = service.parts();
        let features = ServerFeatures {
            read_only: options.read_only,
            items: ServerItems {
                resources: self.resources.bind(&service),
                prompts: self.prompts.bind(&service),
                instructions: self.instructions,
                why_missing: Some(why_missing),
                tools,
                access: parts.access.clone(),
                ..ServerItems::default()
            },
            audit: parts.audit.clone(),
            task_store: parts.task_store.clone(),
            methods: self.methods.bind(&service),
            experimental: self.experimental,
            logging: S::LOGS,
            changes: service.changes(),
            relays: S::RELAYS,
        };
        Ok(Running {
            server: Arc::new(Server::new(self.identity, settings, features)),
            service,
            parts,
            background: JoinSet::new(),
        })
    }

    /// The whole command line, for parsing and for `--help`.
    pub(crate) fn command_line(&self) -> clap::Command {
        self.options_command()
            .subcommands(self.subcommands().iter().map(|command| command.clap()))
            // A command is the first argument, and has options of its own.
            .args_conflicts_with_subcommands(true)
            .disable_help_subcommand(true)
    }

    /// The command line of the server alone.
    pub(crate) fn options_command(&self) -> clap::Command {
        let (name, port) = (self.identity.name.clone(), self.port.to_string());
        let about = self.identity.description.trim_end_matches('.');
        config::with_option(Command::<O>::command())
            .name(name)
            .version(self.identity.version.clone())
            .about(about.to_owned())
            .long_about(format!(
                "{about}\n\nAn MCP server. It serves HTTP (POST /mcp on 127.0.0.1:{port}), or \
                 with --stdio the client that started it. Every option can also be set by the \
                 environment variable named with it, or in the file that --config names. The command \
                 line overrides variables, and variables override the file. The OTEL_* variables of \
                 OpenTelemetry export traces."
            ))
            // Not `mut_arg`, which puts its argument last.
            .mut_args(|arg| match arg.get_id().as_str() {
                "port" => arg.default_value(port.clone()),
                _ => arg,
            })
    }

    /// Checks that the session key is not to be guessed where other processes trust it.
    pub(crate) fn check_key(&self, command: &Command<O>) -> anyhow::Result<()> {
        let set = command.common.session_key.as_deref().unwrap_or_default();
        let configuration = self.configuration.as_ref();
        let is_shared = configuration.is_some_and(|own| (own.shares_key)(&command.product));
        let is_long = set.trim().chars().count() >= MIN_SHARED_KEY_CHARS;
        anyhow::ensure!(
            is_long || !is_shared,
            "--session-key: the processes that serve the same clients trust each other by it, so it must be set, the \
             same at all of them, and have at least {MIN_SHARED_KEY_CHARS} characters: openssl rand -hex 32"
        );
        Ok(())
    }

    fn key(&self, command: &Command<O>) -> anyhow::Result<Key> {
        self.check_key(command).map_err(config::unusable)?;
        let (name, options) = (&self.identity.name, &command.common);
        let secret = options.session_key.as_deref();
        match options.stdio {
            // It has no sessions.
            true => Key::lasting(name, secret).or_else(|_| Key::random()),
            false => Key::load(name, secret),
        }
    }

    /// The functions, which belong to the default toolset, and the toolsets.
    pub(crate) fn all_tools(&self, options: &O) -> Toolset<S> {
        (self.tools)(options).with_bound(self.functions.clone())
    }

    fn serve(self, command: Command<O>, set: Vec<SetOption>) -> anyhow::Result<()> {
        let options = command.common.clone();
        if options.print_options {
            return print::options(self.options_command());
        }
        if options.print_toolsets {
            return print::toolsets(&self.all_tools(&command.product).groups());
        }
        if options.print_tools {
            let tools = ChosenTools::new(self.all_tools(&command.product), &options)?;
            return print::tools(&tools.toolset.definitions());
        }
        let (telemetry, problem) =
            match Telemetry::start(&self.identity.name, &self.identity.version) {
                Ok(telemetry) => (telemetry, None),
                Err(problem) => (None, Some(problem)),
            };
        log::start(&options.log, telemetry.as_ref().map(Telemetry::layer))?;
        if let Some(problem) = problem {
            tracing::warn!("OpenTelemetry: {problem}; nothing is exported");
        }
        for sentence in config::misspelled_variables(&self.options_command()) {
            tracing::warn!("{sentence}");
        }
        let runtime = start_runtime().context("cannot start the runtime")?;
        let served = runtime.block_on(async {
            let (name, port) = (self.identity.name.clone(), self.port);
            let key = self.key(&command)?;
            let tokens = match options.stdio {
                true => None,
                false => {
                    let tokens = options.tokens().map_err(config::unusable)?;
                    Some((tokens, options.tls().map_err(config::unusable)?))
                }
            };
            let stop = stop_on_signals()?;
            let mut running = self.start(command, &key).await?;
            anyhow::ensure!(
                options.stdio || running.parts.view.is_none(),
                Problem::new("--view is for --stdio; over HTTP the path /mcp/NAME names a view")
            );
            let server = Arc::clone(&running.server);
            let served = match tokens {
                None => {
                    if std::io::stdin().is_terminal() {
                        let what = "waits for the messages of an MCP client on stdin, one JSON object in a line. Ctrl-D \
                            ends it; without --stdio it serves HTTP.";
                        let _ = writeln!(std::io::stderr(), "{name} {what}");
                    }
                    let view = running.parts.view.clone();
                    let stop = close_after(stop, Arc::clone(&server), None);
                    stdio::serve(server, options.body_limit, view, stop).await
                }
                Some((tokens, tls)) => {
                    let data = running.parts.page.clone();
                    let page = Page { data, options: set };
                    let page = (!options.no_page).then_some(page);
                    let has_page = page.is_some();
                    let service = running.http(&options, tokens, &key, page);
                    let address = (options.bind, options.port.unwrap_or(port)).into();
                    let shared = running.parts.shared_sessions.clone();
                    let shared = shared.map(|shared| (service.clone(), shared));
                    let stop = close_after(stop, server, shared);
                    http(&name, service, address, tls, has_page, stop).await
                }
            };
            running.stop().await;
            served
        });
        // A blocking read of stdin cannot be interrupted; nothing waits for it.
        runtime.shutdown_background();
        if let Some(telemetry) = telemetry {
            telemetry.stop();
        }
        served
    }

    /// Starts the service, and waits until it is ready.
    async fn start(self, command: Command<O>, key: &Key) -> anyhow::Result<Running<S>> {
        let mut running = self.assemble(command, key)?;
        let (server, service) = (&running.server, &running.service);
        let tasks = &mut running.background;
        tasks.spawn(watch_service(Arc::clone(server), Arc::clone(service)));
        tasks.spawn(Arc::clone(service).run(Arc::clone(server)));
        let timeout = match running.parts.shared_sessions {
            Some(_) => SHARED_READY_TIMEOUT,
            None => READY_TIMEOUT,
        };
        let _ = tokio::time::timeout(timeout, service.ready()).await;
        Ok(running)
    }
}

impl<S: Service> Running<S> {
    /// The service behind the server.
    pub(crate) fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// Stops the work in the background and ends everything that the service has started.
    pub async fn stop(mut self) {
        self.background.abort_all();
        let stopped = tokio::time::timeout(SHUTDOWN_GRACE, self.service.stop());
        if stopped.await.is_err() {
            tracing::warn!("the service did not stop in time");
        }
    }

    /// The paths of the server.
    fn http(
        &mut self,
        options: &Options,
        tokens: ConfiguredTokens,
        key: &Key,
        page: Option<Page>,
    ) -> HttpService {
        if let Some(owners) = tokens.owners() {
            self.service.follow_tokens(owners);
        }
        for follower in tokens.followers {
            self.background.spawn(follower);
        }
        let mut registry = Registry::default();
        self.service.register(&mut registry);
        let guard = Guard::new(tokens.tokens, &options.allowed_hosts).with_oauth(tokens.oauth);
        let server = Arc::clone(&self.server);
        let shared = self.parts.shared_sessions.clone();
        let extras = Extras {
            sse: options.sse,
            own_paths: self.parts.paths.clone(),
            ended_sessions: match shared {
                // Their database knows.
                Some(_) => None,
                None => key.ended_sessions(&server.identity().name),
            },
            shared,
            page,
        };
        let (signer, limits) = (key.signer(), options.limits());
        HttpService::with(server, guard, signer, limits, registry, extras)
    }
}

async fn http(
    name: &str,
    service: HttpService,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    has_page: bool,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut listener = Listener::bind(address, service.clone()).await?;
    let mut scheme = "http";
    if let Some(tls) = tls {
        (listener, scheme) = (listener.tls(tls), "https");
    }
    let address = listener.address();
    tracing::info!("{name} listens on {scheme}://{address}/mcp");
    if has_page {
        // No browser opens an address that stands for all.
        let host = match address.ip().is_unspecified() {
            true => format!("localhost:{}", address.port()),
            false => address.to_string(),
        };
        // Nor does one send the headers that the page needs to an address that is neither local nor HTTPS.
        let is_usable =
            scheme == "https" || address.ip().is_unspecified() || address.ip().is_loopback();
        let url = is_usable.then(|| format!("{scheme}://{host}/"));
        service.tell_page(url);
    }
    listener.serve(stop).await;
    Ok(())
}

/// The variable that tokio reads.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// Starts a thread for each processor, and a second one if there is a single processor. An answer of 4 MB takes 10 ms
/// of a thread, for which all other calls would wait; the system shares a processor sooner.
pub(crate) fn start_runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let is_single = available_parallelism().is_ok_and(|count| count.get() == 1);
    if is_single && std::env::var_os(THREADS).is_none() {
        builder.worker_threads(2);
    }
    builder.enable_all().build()
}

/// Returns a token that the first signal to stop cancels; a second one exits at once. Signals are
/// SIGTERM, SIGINT and SIGHUP; on Windows Ctrl-C, Ctrl-Break, a closed console, the end of the user's
/// session and a shutdown, which are also what service wrappers send to console programs.
pub(crate) fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    // A macro, because each signal of Windows has a type of its own.
    macro_rules! stop_on {
        ($($signal:expr),*) => {$({
            let mut signal = $signal.context("cannot listen for signals")?;
            let stop = stop.clone();
            tokio::spawn(async move {
                while signal.recv().await.is_some() {
                    cancel(&stop);
                }
            });
        })*};
    }
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        stop_on!(
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup())
        );
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows;
        stop_on!(
            windows::ctrl_c(),
            windows::ctrl_break(),
            windows::ctrl_close(),
            windows::ctrl_logoff(),
            windows::ctrl_shutdown()
        );
    }
    Ok(stop)
}

fn cancel(stop: &CancellationToken) {
    if stop.is_cancelled() {
        std::process::exit(1);
    }
    tracing::info!("stopping");
    stop.cancel();
}

/// Time from the signal until the port is closed. Longer than load balancers keep connections without requests: 5 s in
/// `deploy/nginx.conf`.
const DRAIN_TIME: Duration = Duration::from_secs(6);

/// Ends the streams and tasks of `server` after the signal `stop`. Returns a token that is cancelled when the port is to
/// be closed: at once, or after the drain where other processes are alive.
pub(crate) fn close_after(
    stop: CancellationToken,
    server: Arc<Server>,
    shared: Option<(HttpService, Arc<dyn SharedSessions>)>,
) -> CancellationToken {
    let closing = CancellationToken::new();
    let closed = closing.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        if let Some((service, shared)) = shared {
            service.drain();
            if shared.has_others() {
                tracing::info!("other processes take the requests");
                tokio::time::sleep(DRAIN_TIME).await;
            }
        }
        server.close();
        closed.cancel();
    });
    closing
}

/// Timeout of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the probes while the service answers and no call fails.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the probes otherwise: its failure and its return are noticed soon.
const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// Probes `service` without end and keeps the state of `server` up to date.
pub(crate) async fn watch_service(server: Arc<Server>, service: Arc<impl Service>) {
    loop {
        let probe = tokio::time::timeout(PROBE_TIMEOUT, service.probe()).await;
        let failure = match probe {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::debug!(cause = error.causes(), "the probe failed");
                Some(error.message().to_owned())
            }
            Err(_) => Some(format!(
                "the service did not answer within {} s",
                PROBE_TIMEOUT.as_secs()
            )),
        };
        let is_healthy = failure.is_none();
        if server.set_degraded(failure.clone()) {
            match failure {
                None => tracing::info!("online: the service answers"),
                Some(reason) => tracing::warn!("degraded: {reason}"),
            }
        }
        tokio::time::sleep(SHORT_INTERVAL).await;
        if is_healthy {
            let rest = HEALTHY_INTERVAL - SHORT_INTERVAL;
            let _ = tokio::time::timeout(rest, server.service_failed()).await;
        }
    }
}
