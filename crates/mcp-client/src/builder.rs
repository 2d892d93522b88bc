//! What a client does by default.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Defaults;
use crate::handler::Nobody;
use crate::http::Http;
use crate::inbound::Inbound;
use crate::stdio::Stdio;
use crate::transport::Transport;
use crate::{Client, Command, Endpoint, EraChoice, Error, Handler};

/// Timeout of an answer unless set.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a connect unless set.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a [`Client`] does by default, and who takes the server's own messages.
#[must_use]
pub struct Builder {
    defaults: Defaults,
    handler: Arc<dyn Handler>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            defaults: Defaults {
                timeout: REQUEST_TIMEOUT,
                connect_timeout: CONNECT_TIMEOUT,
                era: EraChoice::default(),
            },
            handler: Arc::new(Nobody),
        }
    }
}

impl Builder {
    /// How long to wait for an answer; 30 s unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.defaults.timeout = timeout;
        self
    }

    /// How long [`Client::connect`] may take, with all that it tries; 10 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.connect_timeout = timeout;
        self
    }

    /// Which eras [`Client::connect`] tries; the newest that the server speaks unless set.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.defaults.era = era;
        self
    }

    /// Who takes the server's notifications and requests; unless set the ones are ignored and the
    /// others refused.
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// A client of the server behind a URL. Connects when there is something to send.
    ///
    /// # Errors
    /// Those of [`tls::client_config`](crate::tls::client_config).
    pub fn http(self, endpoint: Endpoint) -> Result<Client, Error> {
        let inbound = Arc::new(Inbound::new(self.handler.clone()));
        let http = Http::new(endpoint, inbound.clone())?;
        Ok(Client::new(Transport::Http(http), inbound, self.defaults))
    }

    /// A client of a server that is started now.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the program cannot be started; [`Error::Invalid`] outside of a
    /// Tokio runtime.
    pub fn stdio(self, command: Command) -> Result<Client, Error> {
        let inbound = Arc::new(Inbound::new(self.handler.clone()));
        let stdio = Stdio::spawn(command, inbound.clone())?;
        Ok(Client::new(Transport::Stdio(stdio), inbound, self.defaults))
    }
}

impl Client {
    /// Makes a client that differs from the default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the server behind a URL; see [`Builder::http`].
    ///
    /// # Errors
    /// Those of [`Builder::http`].
    pub fn http(endpoint: Endpoint) -> Result<Self, Error> {
        Self::builder().http(endpoint)
    }

    /// A client of a server that is started now; see [`Builder::stdio`].
    ///
    /// # Errors
    /// Those of [`Builder::stdio`].
    pub fn stdio(command: Command) -> Result<Self, Error> {
        Self::builder().stdio(command)
    }
}
