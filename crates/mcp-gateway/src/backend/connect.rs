//! Connects to a backend by its configuration.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use mcp_client::oauth::OAuth;
use mcp_client::tls::TlsFiles;
use mcp_client::{
    Authorization, Client, ClientInfo, Command, Endpoint, EraChoice, Error, Handler, Refusal,
};
use serde_json::json;

use crate::config::{BackendConfig, Child, Remote, RemoteTransport, Secret, Target};
use crate::credentials::SharedOAuth;

/// Starts or connects to the backend and negotiates the protocol, within `start_timeout`.
///
/// # Errors
/// The reason in plain words, without secrets.
pub(super) async fn connect(
    config: &BackendConfig,
    tokens: &SharedOAuth,
    handler: Arc<dyn Handler>,
) -> Result<Client, String> {
    match negotiate(config, tokens, Arc::clone(&handler), era(config)).await {
        // Some servers of the legacy era exit at an unknown first request.
        Err(Error::Closed { .. }) if config.is_child() && config.era == EraChoice::Newest => {
            negotiate(config, tokens, handler, EraChoice::Legacy).await
        }
        // A server that refuses POSTs may be one of 2024-11-05 (2025-11-25, "Backwards Compatibility").
        Err(
            error @ Error::Http {
                status: 400 | 404 | 405,
                ..
            },
        ) if config.detects_transport() => {
            let connected = connect_sse(config, tokens, handler).await;
            connected.map_err(|_| error)
        }
        connected => connected,
    }
    .map_err(|error| error.to_string())
}

async fn negotiate(
    config: &BackendConfig,
    tokens: &SharedOAuth,
    handler: Arc<dyn Handler>,
    era: EraChoice,
) -> Result<Client, Error> {
    // Questions of backends are forwarded to the clients that support them.
    let info = ClientInfo::new("mcp-gateway", env!("CARGO_PKG_VERSION")).with_capabilities(json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }));
    let builder = Client::builder()
        .connect_timeout(config.start_timeout)
        .era(era)
        .longest_call(config.timeout.unwrap_or_default())
        .handler(handler);
    let client = match &config.target {
        Target::Http(remote) if remote.transport == RemoteTransport::Sse => {
            builder.sse(endpoint(remote, tokens)?)?
        }
        Target::Child(child) => builder.stdio(command(child)?)?,
        Target::Http(remote) => builder.http(endpoint(remote, tokens)?)?,
    };
    if let Err(error) = Box::pin(client.connect(&info)).await {
        client.close().await;
        return Err(error);
    }
    Ok(client)
}

/// Connects over HTTP+SSE.
async fn connect_sse(
    config: &BackendConfig,
    tokens: &SharedOAuth,
    handler: Arc<dyn Handler>,
) -> Result<Client, Error> {
    let mut config = config.clone();
    if let Target::Http(remote) = &mut config.target {
        remote.transport = RemoteTransport::Sse;
    }
    negotiate(&config, tokens, handler, era(&config)).await
}

/// The revisions to negotiate: a server that speaks HTTP+SSE has none of the modern era.
fn era(config: &BackendConfig) -> EraChoice {
    match (&config.target, config.era) {
        (Target::Http(remote), EraChoice::Newest) if remote.transport == RemoteTransport::Sse => {
            EraChoice::Legacy
        }
        (_, era) => era,
    }
}

fn command(child: &Child) -> Result<Command, Error> {
    let empty = || Error::Invalid("it has no command".to_owned());
    let (program, arguments) = child.argv.split_first().ok_or_else(empty)?;
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
    Ok(command)
}

fn endpoint(remote: &Remote, tokens: &SharedOAuth) -> Result<Endpoint, Error> {
    let endpoint = bare_endpoint(remote)?;
    if let Some(settings) = &remote.oauth {
        return Ok(tokens.get(settings, &endpoint)?.authorize(endpoint));
    }
    match &remote.token {
        None => Ok(endpoint),
        Some(Secret::Text(token)) => endpoint.bearer(token),
        Some(Secret::File(file)) => Ok(TokenFile::authorize(endpoint, file, &remote.url)),
    }
}

/// The server without a token.
fn bare_endpoint(remote: &Remote) -> Result<Endpoint, Error> {
    let mut endpoint = Endpoint::new(&remote.url)?.proxy(remote.proxy.clone());
    if remote.tls != TlsFiles::default() {
        endpoint = endpoint.tls_files(remote.tls.clone());
    }
    for (name, value) in &remote.headers {
        endpoint = endpoint.header(name, &read(name, value)?)?;
    }
    Ok(endpoint)
}

/// The source of tokens for a server; `None` without `oauth`.
pub(crate) fn oauth(remote: &Remote) -> Result<Option<Arc<OAuth>>, Error> {
    let Some(settings) = &remote.oauth else {
        return Ok(None);
    };
    let server = bare_endpoint(remote)?;
    SharedOAuth::default().get(settings, &server).map(Some)
}

fn read(name: &str, secret: &Secret) -> Result<String, Error> {
    let unreadable = |error| Error::Invalid(format!("{name} cannot be read: {error}"));
    secret.read().map_err(unreadable)
}

/// The token of a file, which may change.
struct TokenFile {
    secret: mcp_serve::Secret,
    peer: Arc<str>,
}

impl TokenFile {
    fn authorize(endpoint: Endpoint, file: &Path, url: &str) -> Endpoint {
        endpoint.authorization(Arc::new(Self {
            secret: mcp_serve::Secret::new(None, Some(file.to_owned())),
            peer: url.into(),
        }))
    }

    fn unauthorized(&self, problem: &str) -> Error {
        Error::Unauthorized {
            peer: Arc::clone(&self.peer),
            problem: problem.to_owned(),
        }
    }
}

impl Authorization for TokenFile {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        let token = match self.secret.get() {
            Err(_) => Err(self.unauthorized("the file of its token cannot be read")),
            Ok(None) => Err(self.unauthorized("the file of its token is empty")),
            Ok(Some(token)) => match HeaderValue::from_str(&format!("Bearer {token}")) {
                Ok(mut header) => {
                    header.set_sensitive(true);
                    Ok(Some(header))
                }
                Err(_) => Err(self.unauthorized("the file of its token holds none")),
            },
        };
        std::future::ready(token).boxed()
    }

    fn refused(&self, _: Refusal) -> BoxFuture<'_, Result<(), Error>> {
        let error = self.unauthorized("it refuses the token of its file");
        std::future::ready(Err(error)).boxed()
    }
}
