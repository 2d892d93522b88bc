//! Which era a server speaks, and the handshake of those that want one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::era::Era;
use mcp_core::jsonrpc::METHOD_NOT_FOUND;
use mcp_core::revision::Revision;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agreed::Agreed;
use crate::discover::{NotModern, code, says_nothing};
use crate::info::empty_object;
use crate::meta::{Envelope, Params};
use crate::{Client, ClientInfo, EraChoice, Error, Options, ServerInfo};

/// A server that has not answered `server/discover` by then may ignore methods that it does not know.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

impl Client {
    /// Finds out which era the server speaks, within the [dialects](crate::Builder::era) that
    /// are tried, and opens a session where that era has one. Replaces what was agreed before.
    ///
    /// # Errors
    /// Those of [`Client::request`]; [`Error::Timeout`] after the
    /// [time](crate::Builder::connect_timeout) that all of it may take; [`Error::Protocol`] when the
    /// server speaks no revision that we know.
    pub async fn connect(&self, who: &ClientInfo) -> Result<Arc<ServerInfo>, Error> {
        self.meet(who, self.0.defaults.era).await
    }

    /// The same with `initialize` only: agrees on a revision of the legacy era and opens a
    /// session.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub async fn initialize(&self, who: &ClientInfo) -> Result<Arc<ServerInfo>, Error> {
        self.meet(who, EraChoice::Legacy).await
    }

    async fn meet(&self, who: &ClientInfo, era: EraChoice) -> Result<Arc<ServerInfo>, Error> {
        let meeting = async {
            let _alone = self.0.connecting.lock().await;
            self.agree_on(who, era).await
        };
        self.in_time(self.0.defaults.connect_timeout, meeting).await
    }

    /// A new session instead of one that the server has forgotten; at most one for all who miss it.
    pub(crate) async fn renew(&self, lost: &Arc<Agreed>) -> Result<(), Error> {
        let renewing = async {
            let _alone = self.0.connecting.lock().await;
            let current = self.agreed();
            let Some(who) = current.who.as_ref().filter(|_| Arc::ptr_eq(lost, &current)) else {
                return Ok(());
            };
            let server = self.agree_on(who, EraChoice::Legacy).await?;
            self.0.inbound.handler.session_renewed(&server);
            Ok(())
        };
        self.in_time(self.0.defaults.connect_timeout, renewing)
            .await
    }

    async fn agree_on(&self, who: &ClientInfo, era: EraChoice) -> Result<Arc<ServerInfo>, Error> {
        let server = match era {
            EraChoice::Unversioned => plain(),
            EraChoice::Legacy => self.shake_hands(who).await?,
            EraChoice::Modern => match self.discover(who).await {
                Ok(Some(server)) => server,
                Ok(None) => return Err(self.broken("it does not speak 2026-07-28")),
                Err(NotModern(error)) => return Err(error),
            },
            EraChoice::Newest => self.newest(who).await?,
        };
        let server = Arc::new(server);
        let envelope = match server.era {
            Era::Modern => Some(Envelope::new(who)?),
            Era::Legacy(_) | Era::Unversioned => None,
        };
        if let Era::Legacy(revision) = server.era {
            self.0.transport.agree_on(revision.as_str());
        } else {
            self.0.transport.forget_session();
        }
        self.agree(Agreed {
            who: Some(who.clone()),
            server: Some(server.clone()),
            envelope,
        });
        if let Era::Legacy(_) = server.era {
            match self.notify("notifications/initialized", &()).await {
                // One that knows no notifications can do without.
                Err(Error::Http { status, .. }) => {
                    tracing::debug!(peer = self.peer(), status, "does not want to be notified");
                }
                told => told?,
            }
        }
        Ok(server)
    }

    /// Asks for the newest first. Who is silent for long may be new and slow to start, or old and
    /// deaf to what it does not know: it is asked in the old way too, and the first answer counts.
    async fn newest(&self, who: &ClientInfo) -> Result<ServerInfo, Error> {
        let mut discovery = pin!(self.discover(who));
        match tokio::time::timeout(DISCOVER_TIMEOUT, &mut discovery).await {
            Ok(Ok(Some(server))) => return Ok(server),
            Ok(Ok(None)) => return self.older(who).await,
            Ok(Err(NotModern(error))) if says_nothing(&error) => return self.older(who).await,
            Ok(Err(NotModern(error))) => return Err(error),
            Err(_) => {}
        }
        let mut older = pin!(self.older(who));
        tokio::select! {
            found = &mut discovery => match found {
                Ok(Some(server)) => Ok(server),
                Ok(None) | Err(_) => older.await,
            },
            met = &mut older => match met {
                Err(refused) if refused.rpc().is_some() => match discovery.await {
                    Ok(Some(server)) => Ok(server),
                    Ok(None) | Err(_) => Err(refused),
                },
                met => met,
            },
        }
    }

    /// A handshake, or empty_object at all with those who do not know it.
    async fn older(&self, who: &ClientInfo) -> Result<ServerInfo, Error> {
        match self.shake_hands(who).await {
            Err(error) if code(&error) == Some(METHOD_NOT_FOUND.into()) => Ok(plain()),
            met => met,
        }
    }

    async fn shake_hands(&self, who: &ClientInfo) -> Result<ServerInfo, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            protocol_version: String,
            capabilities: Option<Box<RawValue>>,
            #[serde(default)]
            server_info: Box<RawValue>,
            instructions: Option<String>,
        }
        let who = serde_json::to_string(who).map_err(|error| Error::Invalid(error.to_string()))?;
        let none = (Agreed::default(), Options::default());
        let answer = self.attempt(&none.0, "initialize", Params::Text(Some(&who)), &none.1);
        let answer: Answer = self.read("initialize", answer.await?.get())?;
        let Some(revision) = Revision::parse(&answer.protocol_version) else {
            return Err(self.broken("initialize chose an unknown protocol version"));
        };
        Ok(ServerInfo {
            era: Era::Legacy(revision),
            protocol_version: answer.protocol_version,
            capabilities: answer.capabilities.unwrap_or_else(empty_object),
            server_info: answer.server_info,
            instructions: answer.instructions,
        })
    }
}

fn plain() -> ServerInfo {
    ServerInfo {
        era: Era::Unversioned,
        protocol_version: Era::Unversioned.revision().to_owned(),
        capabilities: empty_object(),
        server_info: Box::default(),
        instructions: None,
    }
}
