//! Negotiates the era with a server: by `server/discover` whether it supports the modern one, and by the
//! `initialize` handshake of the legacy era.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::era::Era;
use mcp_core::jsonrpc::{METHOD_NOT_FOUND, Members};
use mcp_core::revision::{MODERN, Revision};

use super::request::Params;
use super::{Client, Negotiated, Transport};
use crate::handshake::{ClientInfo, EraChoice, HandshakeResult, ServerInfo};
use crate::{Error, Options};

/// After this time without a response to `server/discover`, `initialize` is tried as well.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

impl Client {
    /// Negotiates an era with the server, within those that [`Builder::era`](crate::Builder::era)
    /// allows, and opens a session if the era has one. Replaces the result of an earlier connect.
    ///
    /// # Errors
    /// The errors of [`Client::request`]; [`Error::Timeout`] after the [connect
    /// timeout](crate::Builder::connect_timeout); [`Error::Protocol`] if the server supports none of
    /// our revisions.
    pub async fn connect(&self, client: &ClientInfo) -> Result<Arc<ServerInfo>, Error> {
        self.connect_as(client, self.0.defaults.era).await
    }

    /// Connects with `initialize` only: negotiates a revision of the legacy era and opens a session.
    ///
    /// # Errors
    /// The errors of [`Client::connect`].
    pub async fn initialize(&self, client: &ClientInfo) -> Result<Arc<ServerInfo>, Error> {
        self.connect_as(client, EraChoice::Legacy).await
    }

    async fn connect_as(
        &self,
        client: &ClientInfo,
        era: EraChoice,
    ) -> Result<Arc<ServerInfo>, Error> {
        let connecting = async {
            let _guard = self.0.connecting.lock().await;
            self.negotiate(client, era).await
        };
        let timeout = self.0.defaults.connect_timeout;
        self.with_timeout(timeout, connecting).await
    }

    /// Opens a new session instead of a lost one; once for all requests that noticed the loss.
    pub(crate) async fn renew_session(&self, lost: &Arc<Negotiated>) -> Result<(), Error> {
        let renewing = async {
            let _guard = self.0.connecting.lock().await;
            let current = self.negotiated();
            let client = current.client_info.as_ref();
            if let Some(client) = client.filter(|_| Arc::ptr_eq(lost, &current)) {
                let era = match self.0.defaults.era {
                    held @ EraChoice::Revision(_) => held,
                    _ => EraChoice::Legacy,
                };
                let server = self.negotiate(client, era).await?;
                self.0.inbound.handler.session_renewed(&server);
            }
            Ok(())
        };
        let timeout = self.0.defaults.connect_timeout;
        self.with_timeout(timeout, renewing).await
    }

    async fn negotiate(
        &self,
        client: &ClientInfo,
        era: EraChoice,
    ) -> Result<Arc<ServerInfo>, Error> {
        let server = match era {
            EraChoice::Unversioned => unversioned(),
            EraChoice::Legacy => self.send_initialize(client).await?,
            EraChoice::Revision(revision) => self.initialize_at(client, revision).await?,
            EraChoice::Modern => match self.discover(client).await {
                Ok(Some(server)) => server,
                Err(error) if !suggests_older_server(&error) => return Err(error),
                Ok(None) | Err(_) => return Err(self.unsupported(MODERN)),
            },
            EraChoice::Newest => self.negotiate_newest(client).await?,
        };
        let server = Arc::new(server);
        let revision = match server.era {
            Era::Legacy(revision) => Some(revision.as_str()),
            Era::Modern | Era::Unversioned => None,
        };
        if let Transport::Http(http) = &self.0.transport {
            http.set_revision(revision);
        }
        self.set_negotiated(Negotiated {
            client_info: Some(client.clone()),
            server: Some(server.clone()),
            is_modern: server.era == Era::Modern,
        });
        if revision.is_some() {
            match self.notify("notifications/initialized", &()).await {
                // A server that refuses notifications works without this one.
                Err(Error::Http { status, .. }) => {
                    tracing::debug!(peer = self.peer(), status, "notification refused");
                }
                sent => sent?,
            }
        }
        Ok(server)
    }

    /// Tries the newest era first. A server that is slow to answer may still be starting, or may
    /// ignore unknown methods: then `initialize` is sent too, and the first response counts.
    async fn negotiate_newest(&self, client: &ClientInfo) -> Result<ServerInfo, Error> {
        let mut discovery = pin!(self.discover(client));
        match tokio::time::timeout(DISCOVER_TIMEOUT, &mut discovery).await {
            Ok(Ok(Some(server))) => return Ok(server),
            Ok(Ok(None)) => return self.negotiate_older(client).await,
            Ok(Err(error)) if suggests_older_server(&error) => {
                return self.negotiate_older(client).await;
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {}
        }
        let mut older = pin!(self.negotiate_older(client));
        tokio::select! {
            // A server that was starting has answered both by now, this one first.
            biased;
            found = &mut discovery => match found {
                Ok(Some(server)) => Ok(server),
                Ok(None) | Err(_) => older.await,
            },
            initialized = &mut older => match initialized {
                Err(refused) if refused.rpc().is_some() => match discovery.await {
                    Ok(Some(server)) => Ok(server),
                    Ok(None) | Err(_) => Err(refused),
                },
                initialized => initialized,
            },
        }
    }

    /// Sends `initialize`. A server that does not know it is unversioned.
    async fn negotiate_older(&self, client: &ClientInfo) -> Result<ServerInfo, Error> {
        match self.send_initialize(client).await {
            Err(error) if code(&error) == Some(METHOD_NOT_FOUND.into()) => Ok(unversioned()),
            initialized => initialized,
        }
    }

    /// Sends `initialize` for one revision. A server may choose another one, which is an error.
    async fn initialize_at(
        &self,
        client: &ClientInfo,
        revision: Revision,
    ) -> Result<ServerInfo, Error> {
        let client = ClientInfo {
            protocol_version: revision.as_str(),
            ..client.clone()
        };
        match self.send_initialize(&client).await {
            Ok(server) if server.era == Era::Legacy(revision) => Ok(server),
            Ok(server) => {
                let chosen = server.protocol_version;
                let fault = format!("it does not support {revision}; it chose {chosen}");
                Err(self.protocol_error(fault))
            }
            Err(error) if code(&error) == Some(METHOD_NOT_FOUND.into()) => {
                Err(self.unsupported(revision.as_str()))
            }
            Err(error) => Err(error),
        }
    }

    fn unsupported(&self, revision: &str) -> Error {
        self.protocol_error(format!("it does not support {revision}"))
    }

    async fn send_initialize(&self, client: &ClientInfo) -> Result<ServerInfo, Error> {
        const METHOD: &str = "initialize";
        let params = serde_json::to_string(client);
        let params = params.map_err(|error| Error::Invalid(error.to_string()))?;
        let (negotiated, options) = (Negotiated::default(), Options::default());
        let params = Params::Text(Some(&params));
        let result = self
            .send_once(&negotiated, METHOD, params, &options)
            .await?;
        let result: HandshakeResult = self.read(METHOD, result.get())?;
        match Revision::parse(&result.protocol_version) {
            Some(revision) => Ok(result.into_server_info(Era::Legacy(revision))),
            None => Err(self.protocol_error("initialize chose an unknown protocol version")),
        }
    }
}

fn unversioned() -> ServerInfo {
    HandshakeResult::default().into_server_info(Era::Unversioned)
}

/// Error codes that only a server of the modern era uses (2026-07-28, "Error Codes").
pub(crate) const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

impl Client {
    /// Sends `server/discover`. Returns `None` if the server knows the method, but supports only
    /// older revisions.
    pub(crate) async fn discover(&self, client: &ClientInfo) -> Result<Option<ServerInfo>, Error> {
        const METHOD: &str = "server/discover";
        let negotiated = Negotiated {
            client_info: Some(client.clone()),
            server: None,
            is_modern: true,
        };
        let options = Options::default();
        let send = || self.send_once(&negotiated, METHOD, Params::Text(None), &options);
        let result = match send().await {
            Err(error) => match supported_versions(&error) {
                // It names the version that we have just used: perhaps it was still starting.
                Some(versions) if versions.iter().any(|v| v == MODERN) => send().await?,
                Some(versions) if versions.iter().any(|v| Revision::parse(v).is_some()) => {
                    return Ok(None);
                }
                _ => return Err(error),
            },
            Ok(result) => result,
        };
        let result: HandshakeResult = self.read(METHOD, result.get())?;
        let is_modern = result.supported_versions.iter().any(|v| v == MODERN);
        Ok(is_modern.then(|| result.into_server_info(Era::Modern)))
    }
}

/// Returns true if the error only means that the server does not know the method.
pub(crate) fn suggests_older_server(error: &Error) -> bool {
    if code(error).is_some_and(|code| (UNSUPPORTED_VERSION..=HEADER_MISMATCH).contains(&code)) {
        return false;
    }
    match error {
        Error::Rpc(_) | Error::Protocol { .. } | Error::InvalidAnswer { .. } => true,
        // Excluded: wrong key, rate limit, or a proxy without a server behind it.
        Error::Http { status, .. } => !matches!(status, 401 | 403 | 407 | 429 | 502..),
        _ => false,
    }
}

pub(crate) fn code(error: &Error) -> Option<i64> {
    error.rpc().map(|error| error.code)
}

/// The versions that a server names when it refuses ours.
fn supported_versions(error: &Error) -> Option<Vec<String>> {
    let error = error.rpc();
    let error = error.filter(|error| error.code == UNSUPPORTED_VERSION)?;
    let data = Members::read(error.data.as_ref()?.get())?;
    serde_json::from_str(data.get("supported")?).ok()
}
