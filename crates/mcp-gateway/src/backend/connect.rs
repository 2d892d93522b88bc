//! Connects to a backend by its configuration.

use std::sync::{Arc, LazyLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Uri};
use mcp_client::oauth::OAuth;
use mcp_client::tls::TlsFiles;
use mcp_client::{
    Authorization, Client, ClientInfo, Command, Endpoint, EraChoice, Error, Handler, TokenRefusal,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::config::{BackendConfig, Child, OAuthSettings, Remote, RemoteTransport, Secret, Target};
use crate::credentials::SharedOAuth;

/// The extension of servers with apps.
pub(crate) const APPS: &str = "io.modelcontextprotocol/ui";

/// Starts or connects to the backend and negotiates the protocol, within `start_timeout`.
///
/// # Errors
/// The reason in plain words, without secrets.
pub(super) async fn connect(
    config: &BackendConfig,
    era: EraChoice,
    tokens: &SharedOAuth,
    handler: Arc<dyn Handler>,
) -> Result<Client, String> {
    let transport = match &config.target {
        Target::Http(remote) => Some(remote.transport),
        Target::Child(_) => None,
    };
    let is_sse = transport == Some(RemoteTransport::Sse);
    let negotiate = |era, is_sse| negotiate(config, era, is_sse, tokens, Arc::clone(&handler));
    match negotiate(era, is_sse).await {
        // Some servers of the legacy era exit at an unknown first request.
        Err(Error::Closed { .. }) if config.is_child() && era == EraChoice::Newest => {
            negotiate(EraChoice::Legacy, false).await
        }
        // A server that refuses POSTs may be one of 2024-11-05 (2025-11-25, "Backwards Compatibility").
        Err(
            error @ Error::Http {
                status: 400 | 404 | 405,
                ..
            },
        ) if transport == Some(RemoteTransport::Detect) => {
            negotiate(era, true).await.map_err(|_| error)
        }
        connected => connected,
    }
    .map_err(|error| error.to_string())
}

async fn negotiate(
    config: &BackendConfig,
    era: EraChoice,
    is_sse: bool,
    tokens: &SharedOAuth,
    handler: Arc<dyn Handler>,
) -> Result<Client, Error> {
    // A server that speaks HTTP+SSE has no revision of the modern era.
    let era = match era {
        EraChoice::Newest if is_sse => EraChoice::Legacy,
        era => era,
    };
    // Questions of backends are forwarded to the clients that support them.
    let info = ClientInfo::new("mcp-gateway", env!("CARGO_PKG_VERSION")).with_capabilities(json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
        // Some servers register the tools of their apps for such clients only. In the newest era each request says
        // what its client can show.
        "extensions": {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}},
    }));
    let mut builder = Client::builder()
        .connect_timeout(config.start_timeout)
        .era(era)
        .handler(handler);
    if let Some(timeout) = config.timeout {
        builder = builder.longest_call(timeout);
    }
    let client = match &config.target {
        Target::Child(child) => builder.stdio(command(child)?)?,
        Target::Http(remote) if is_sse => builder.sse(endpoint(remote, tokens)?)?,
        Target::Http(remote) => builder.http(endpoint(remote, tokens)?)?,
    };
    let connected = Box::pin(client.connect(&info)).await;
    let is_itself = || {
        let server = client.server();
        server.is_some_and(|server| server.capabilities.get().contains(own_id()))
    };
    let connected = connected.and_then(|_| match is_itself() {
        true => Err(Error::Invalid(
            "it is this gateway itself: remove it from the backends".to_owned(),
        )),
        false => Ok(()),
    });
    if let Err(error) = connected {
        client.close().await;
        return Err(error);
    }
    Ok(client)
}

/// The random id of this process in the capabilities of its server, by which the gateway knows itself.
pub(crate) fn own_id() -> &'static str {
    static ID: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().simple().to_string());
    &ID
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
        Some(Secret::File(file)) => Ok(endpoint.authorization(Arc::new(TokenFile {
            secret: mcp_serve::Secret::new(None, Some(file.clone())),
            peer: remote.url.as_str().into(),
        }))),
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

/// The reason why a server of this workspace is degraded, which its path `/readyz` beside `/mcp` tells. `None` for all
/// others.
pub(super) async fn degraded(remote: &Remote) -> Option<String> {
    let url: Uri = remote.url.parse().ok()?;
    let above = url.path().strip_suffix("/mcp")?;
    let url = format!("{}://{}{above}/readyz", url.scheme_str()?, url.authority()?);
    let remote = Remote {
        url,
        ..remote.clone()
    };
    let (_, body) = bare_endpoint(&remote).ok()?.get().await.ok()?;
    let state: Value = serde_json::from_slice(&body).ok()?;
    let is_degraded = state["status"] == "degraded";
    let reason = state["reason"].as_str().filter(|_| is_degraded)?;
    Some(reason.to_owned())
}

/// The source of tokens for a server with these settings.
pub(crate) fn oauth(remote: &Remote, settings: &OAuthSettings) -> Result<Arc<OAuth>, Error> {
    SharedOAuth::default().get(settings, &bare_endpoint(remote)?)
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
    fn unauthorized(&self, problem: &str) -> Error {
        Error::Unauthorized {
            peer: Arc::clone(&self.peer),
            problem: problem.to_owned(),
        }
    }
}

impl Authorization for TokenFile {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        let token = self.secret.get().map_err(|_| "cannot be read");
        let token = token.and_then(|token| token.ok_or("is empty"));
        let header = token.and_then(|token| {
            let header = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut header = header.map_err(|_| "holds none")?;
            header.set_sensitive(true);
            Ok(Some(header))
        });
        let wrong = |fault| self.unauthorized(&format!("the file of its token {fault}"));
        std::future::ready(header.map_err(wrong)).boxed()
    }

    /// The file may have been renewed since the request was made: then it is sent again.
    fn refused(&self, refusal: TokenRefusal) -> BoxFuture<'_, Result<(), Error>> {
        let used = refusal.used;
        async move {
            match self.header().await? {
                renewed if renewed != used => Ok(()),
                _ => Err(self.unauthorized("it refuses the token of its file")),
            }
        }
        .boxed()
    }
}
