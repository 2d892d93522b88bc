//! From the command line to the last answer.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use mcp_core::server::{Identity, Server, ServerFeatures, ServerItems, ServerSettings};
use mcp_core::tool::Toolset;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::http::{Guard, Limits, Listener, Workers};
use crate::key::{self, Key};
use crate::{Command, Options, Product, Secret, Service, Tokens, log, print, probe, stdio};

/// How long the service may take to show what it has to offer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the service may take to end what it has started.
const FAREWELL: Duration = Duration::from_secs(10);

/// The `main` of every server.
pub fn run<P: Product>() -> ExitCode {
    let matches = command::<P>().get_matches();
    let command = match Command::<P::Options>::from_arg_matches(&matches) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    match serve::<P>(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may not have been started.
            let _ = writeln!(std::io::stderr(), "{}: {error:#}", P::NAME);
            ExitCode::FAILURE
        }
    }
}

/// The command line: what is parsed, what `--help` shows and what the README's tables hold.
pub fn command<P: Product>() -> clap::Command {
    let name = P::NAME;
    let about = P::DESCRIPTION.trim_end_matches('.');
    let port = P::PORT;
    Command::<P::Options>::command()
        .name(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(format!(
            "{about}\n\nAn MCP server. It answers POST /mcp on 127.0.0.1:{port}, or with --stdio the one client \
             that started it. Every option can also be set by the environment variable named with it; \
             the command line goes first."
        ))
        // Not `mut_arg`, which puts its argument last.
        .mut_args(|arg| match arg.get_id().as_str() {
            "port" => arg.default_value(port.to_string()),
            _ => arg,
        })
        // Some of the values are secrets.
        .mut_args(|arg| arg.hide_env_values(true))
}

/// A server with its service: what `run` serves and what tests talk to. Of `tools` it offers what
/// the options choose.
///
/// # Errors
/// When `--toolsets` names one that there is not.
pub fn assemble<P: Product>(
    options: &Options,
    key: &Key,
    tools: Toolset<P::Service>,
    service: &Arc<P::Service>,
) -> anyhow::Result<Arc<Server>> {
    let identity = Identity {
        name: P::NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        description: P::DESCRIPTION.to_owned(),
    };
    let settings = ServerSettings {
        profile: options.error_profile.into(),
        call_timeout: options.call_timeout(),
        signer: key.signer(),
        spawn: |work| _ = tokio::spawn(work),
        random: key::random,
    };
    let offer = ServerFeatures {
        items: ServerItems {
            tools: choose(options, tools)?.bind(service),
            resources: P::resources().bind(service),
            prompts: P::prompts().bind(service),
        },
        methods: P::methods().bind(service),
        experimental: P::experimental(),
        logging: P::Service::LOGS,
        changes: service.changes(),
        relays: P::Service::RELAYS,
    };
    Ok(Arc::new(Server::new(
        identity,
        settings,
        offer,
        Arc::new(SystemClock::start()),
    )))
}

/// Returns the tools that `--toolsets` and `--read-only` leave.
fn choose<S: Send + Sync + 'static>(
    options: &Options,
    tools: Toolset<S>,
) -> anyhow::Result<Toolset<S>> {
    let names = tools.groups().join(", ");
    let chosen = tools.choose(&options.toolsets).map_err(|unknown| {
        anyhow::anyhow!("--toolsets: there is no toolset {unknown:?}; there are all, {names}")
    })?;
    Ok(if options.read_only {
        chosen.read_only()
    } else {
        chosen
    })
}

fn serve<P: Product>(command: Command<P::Options>) -> anyhow::Result<()> {
    let Command {
        common: options,
        product,
    } = command;
    let tools = P::tools(&product);
    if options.print_tools {
        return print::tools(&choose(&options, tools)?);
    }
    if options.print_toolsets {
        return print::toolsets(&tools);
    }
    if options.print_options {
        return print::options(self::command::<P>());
    }
    log::start(&options.log)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let relays = P::Service::RELAYS && !options.stdio;
    let workers = relays.then(Workers::start).transpose();
    let workers = workers.context("cannot start the threads of connections")?;
    let served = runtime.block_on(async {
        let service = Arc::new(P::connect(product)?);
        let key = Key::load(P::NAME, &options)?;
        let server = assemble::<P>(&options, &key, tools, &service)?;
        let watch = tokio::spawn(probe::watch(Arc::clone(&server), Arc::clone(&service)));
        let work = tokio::spawn(Arc::clone(&service).run(Arc::clone(&server)));
        let stop = stop_signal()?;
        let _ = tokio::time::timeout(PATIENCE, service.ready()).await;
        let (open, stopped) = (Arc::clone(&server), stop.clone());
        tokio::spawn(async move {
            stopped.cancelled().await;
            open.close();
        });
        let served = if options.stdio {
            stdio::serve(server, options.body_limit, stop).await
        } else {
            let mut registry = Registry::default();
            service.register(&mut registry);
            http::<P>(server, registry, &options, &key, workers.as_ref(), stop).await
        };
        watch.abort();
        work.abort();
        if tokio::time::timeout(FAREWELL, service.stop())
            .await
            .is_err()
        {
            tracing::warn!("not everything that was started here has ended");
        }
        served
    });
    // A blocking read of stdin cannot be interrupted; nothing waits for it.
    runtime.shutdown_background();
    served
}

async fn http<P: Product>(
    server: Arc<Server>,
    registry: Registry,
    options: &Options,
    key: &Key,
    workers: Option<&Workers>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let secret = Secret::new(options.token.clone(), options.token_file.clone());
    let token = secret
        .get()
        .context("cannot read the file named by --token-file")?;
    let tokens = Tokens::parse(&token.unwrap_or_default())?;
    // Whoever names a file wants a lock, even if nothing is in it yet.
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
    let guard = Guard::new(tokens, &options.allowed_hosts);
    let limits = Limits {
        body: options.body_limit,
        rate: options.rate_limit,
        ..Limits::default()
    };
    let address = (options.bind, options.port.unwrap_or(P::PORT)).into();
    let listener = Listener::bind(address, server, guard, key.signer(), limits, registry).await?;
    tracing::info!("{} listens on http://{}/mcp", P::NAME, listener.address());
    listener.serve(workers, stop).await;
    Ok(())
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
