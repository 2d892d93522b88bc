//! The way to a backend, as it is configured.

use std::sync::Arc;

use mcp_client::{Client, ClientInfo, Command, Endpoint, EraChoice, Error, Handler};
use serde_json::json;

use crate::config::{Backend, Child, Remote, Secret, Target};

/// Starts or reaches the backend and finds out what it speaks, within the time that the
/// configuration allows.
///
/// # Errors
/// Why it cannot be used, in words for people; they hold no secret.
pub(super) async fn connect(config: &Backend, handler: Arc<dyn Handler>) -> Result<Client, String> {
    let dialect = match config.target {
        Target::Rpc(_) => EraChoice::Unversioned,
        Target::Child(_) | Target::Http(_) => EraChoice::Newest,
    };
    match negotiate(config, Arc::clone(&handler), dialect).await {
        // Some servers of the legacy era end at the sight of anything else.
        Err(Error::Closed { .. }) if config.is_child() => {
            negotiate(config, handler, EraChoice::Legacy).await
        }
        connected => connected,
    }
    .map_err(|error| error.to_string())
}

async fn negotiate(
    config: &Backend,
    handler: Arc<dyn Handler>,
    dialect: EraChoice,
) -> Result<Client, Error> {
    // What backends may ask for is asked of those clients that can be asked.
    let who = ClientInfo::new("mcp-gateway", env!("CARGO_PKG_VERSION")).with_capabilities(json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }));
    let builder = Client::builder()
        .connect_timeout(config.start_timeout)
        .era(dialect)
        .handler(handler);
    let client = match &config.target {
        Target::Child(child) => builder.stdio(command(child)?)?,
        Target::Http(remote) | Target::Rpc(remote) => builder.http(endpoint(remote)?)?,
    };
    if let Err(error) = Box::pin(client.connect(&who)).await {
        client.close().await;
        return Err(error);
    }
    Ok(client)
}

fn command(child: &Child) -> Result<Command, Error> {
    let (program, arguments) = child
        .argv
        .split_first()
        .ok_or_else(|| Error::Invalid("it has no command".to_owned()))?;
    let mut command = Command::new(program).args(arguments);
    for name in &child.env_pass {
        if let Some(value) = std::env::var_os(name) {
            command = command.env(name, value);
        }
    }
    for (name, value) in &child.env {
        command = command.env(name, read(name, value)?);
    }
    if let Some(directory) = &child.cwd {
        command = command.directory(directory);
    }
    // It ends what it has started when the gateway is killed. Not the path of this program: another
    // one may be there by now.
    Ok(command.reaper("/proc/self/exe"))
}

fn endpoint(remote: &Remote) -> Result<Endpoint, Error> {
    let mut endpoint = Endpoint::new(&remote.url)?;
    for (name, value) in &remote.headers {
        endpoint = endpoint.header(name, &read(name, value)?)?;
    }
    if let Some(token) = &remote.token {
        endpoint = endpoint.bearer(&read("token", token)?)?;
    }
    Ok(endpoint)
}

fn read(name: &str, secret: &Secret) -> Result<String, Error> {
    let unreadable = |error| Error::Invalid(format!("{name} cannot be read: {error}"));
    secret.read().map_err(unreadable)
}
