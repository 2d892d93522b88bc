//! Credentials that change while a client runs.

use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode};

use crate::Error;

/// The source of the header `Authorization` of every request.
pub trait Authorization: Send + Sync {
    /// Returns the header of the next request; `None` to send it without.
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>>;

    /// Receives the refusal of a request. The request is sent once more if this succeeds.
    ///
    /// # Errors
    /// The error of the request.
    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Result<(), Error>>;
}

/// An answer with status 401, or 403 because the rights of the token do not suffice.
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The header that was refused.
    pub used: Option<HeaderValue>,
    /// True if this request was refused before, with another header.
    pub is_repeated: bool,
}
