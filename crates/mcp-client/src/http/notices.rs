//! The GET stream of the legacy era: what the server says while nobody asks.

use super::exchange::Exchange;
use super::pool::Body;
use super::{Http, is_stream};
use crate::Error;
use crate::sink::Sink;

/// A stream that is open.
pub(crate) struct Notices {
    http: Http,
    body: Body,
}

impl Http {
    /// Opens the stream.
    pub(crate) async fn notices(&self) -> Result<Notices, Error> {
        let session = self.0.session.headers();
        let response = self.0.connection.resume(None, &session).await?;
        if !is_stream(response.headers()) {
            return Err(self
                .0
                .connection
                .broken("its answer to GET is no stream of events"));
        }
        Ok(Notices {
            http: self.clone(),
            body: response.into_body(),
        })
    }
}

impl Notices {
    /// Hands over what comes until the stream ends for good: one that named its last event is
    /// asked for the rest.
    pub(crate) async fn follow(self) -> Result<(), Error> {
        if self.body.is_at_end() {
            return Ok(());
        }
        // No request has this id, so everything that comes is the server's own.
        Exchange::new(&self.http, 0, Sink::default())
            .follow_all(self.body)
            .await
    }
}
