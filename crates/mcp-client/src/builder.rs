//! Builds a client with its defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Defaults;
use crate::handler::DefaultHandler;
use crate::http::Http;
use crate::inbound::Inbound;
use crate::sse;
use crate::stdio::Stdio;
use crate::transport::Transport;
use crate::{Client, Command, Endpoint, EraChoice, Error, Handler};

/// Default timeout of a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Default timeout of a whole connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The defaults of a [`Client`], and the handler of the server's own messages.
#[must_use]
pub struct Builder {
    defaults: Defaults,
    handler: Arc<dyn Handler>,
    longest_call: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            defaults: Defaults {
                timeout: REQUEST_TIMEOUT,
                connect_timeout: CONNECT_TIMEOUT,
                era: EraChoice::default(),
            },
            handler: Arc::new(DefaultHandler),
            longest_call: Duration::ZERO,
        }
    }
}

impl Builder {
    /// Sets the timeout of a response; 30 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.defaults.timeout = timeout;
        self
    }

    /// Sets the timeout of [`Client::connect`] with all of its attempts; 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.connect_timeout = timeout;
        self
    }

    /// Sets the eras that [`Client::connect`] tries; [`EraChoice::Newest`] by default.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.defaults.era = era;
        self
    }

    /// Sets the handler of the server's notifications and requests. Without one, notifications are
    /// ignored and requests refused.
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// Sets the longest time for which a call may run, if that is longer than the timeout of a response. The
    /// server may ask its questions so long after the caller has gone.
    pub fn longest_call(mut self, time: Duration) -> Self {
        self.longest_call = time;
        self
    }

    fn inbound(&self) -> Arc<Inbound> {
        let call_timeout = self.defaults.timeout.max(self.longest_call);
        Arc::new(Inbound::new(self.handler.clone(), call_timeout))
    }

    /// Makes a client of the server behind a URL. Connects when there is something to send.
    ///
    /// # Errors
    /// The errors of [`tls::client_config`](crate::tls::client_config).
    pub fn http(self, endpoint: Endpoint) -> Result<Client, Error> {
        let inbound = self.inbound();
        let http = Http::new(endpoint, inbound.clone())?;
        Ok(Client::new(Transport::Http(http), inbound, self.defaults))
    }

    /// Makes a client of a server that speaks HTTP+SSE, the transport of 2024-11-05, at the URL of its event
    /// stream. Connects at once.
    ///
    /// # Errors
    /// The errors of [`tls::client_config`](crate::tls::client_config); [`Error::Invalid`] outside of a Tokio
    /// runtime.
    pub fn sse(self, endpoint: Endpoint) -> Result<Client, Error> {
        let inbound = self.inbound();
        let stdio = sse::connect(endpoint, inbound.clone())?;
        Ok(Client::new(Transport::Stdio(stdio), inbound, self.defaults))
    }

    /// Starts a server and makes a client of it.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the program cannot be started; [`Error::Invalid`] outside of a
    /// Tokio runtime.
    pub fn stdio(self, command: Command) -> Result<Client, Error> {
        let inbound = self.inbound();
        let stdio = Stdio::spawn(command, inbound.clone())?;
        Ok(Client::new(Transport::Stdio(stdio), inbound, self.defaults))
    }
}

impl Client {
    /// Returns a builder, for a client with other than the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Makes a client of the server behind a URL; see [`Builder::http`].
    ///
    /// # Errors
    /// The errors of [`Builder::http`].
    pub fn http(endpoint: Endpoint) -> Result<Self, Error> {
        Self::builder().http(endpoint)
    }

    /// Starts a server and makes a client of it; see [`Builder::stdio`].
    ///
    /// # Errors
    /// The errors of [`Builder::stdio`].
    pub fn stdio(command: Command) -> Result<Self, Error> {
        Self::builder().stdio(command)
    }
}
