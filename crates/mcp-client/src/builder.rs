//! What a client does by default.

use std::sync::Arc;
use std::time::Duration;

use crate::handler::Nobody;
use crate::http::Http;
use crate::inbound::Inbound;
use crate::stdio::Stdio;
use crate::transport::Transport;
use crate::{Client, Command, Dialect, Endpoint, Error, Handler};

/// What an answer may take unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What it may take until a server is ready.
const CONNECT: Duration = Duration::from_secs(10);

/// What a [`Client`] does by default, and who takes the server's own messages.
#[must_use]
pub struct Builder {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) dialect: Dialect,
    handler: Arc<dyn Handler>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT,
            connect_timeout: CONNECT,
            dialect: Dialect::default(),
            handler: Arc::new(Nobody),
        }
    }
}

impl Builder {
    /// How long to wait for an answer; 30 s unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long [`Client::connect`] may take, with all that it tries; 10 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Which eras [`Client::connect`] tries; the newest that the server speaks unless set.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
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
        Ok(Client::over(Transport::Http(http), inbound, &self))
    }

    /// A client of a server that is started now.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the program cannot be started; [`Error::Invalid`] outside of a
    /// Tokio runtime.
    pub fn stdio(self, command: Command) -> Result<Client, Error> {
        let inbound = Arc::new(Inbound::new(self.handler.clone()));
        let stdio = Stdio::spawn(command, inbound.clone())?;
        Ok(Client::over(Transport::Stdio(stdio), inbound, &self))
    }
}
