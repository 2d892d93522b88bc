//! Replies that are one JSON object per line: the progress of a pull, of a build; events.

use bollard::errors::Error;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::de::DeserializeOwned;

use super::Failure;

/// Longest line that is read, in bytes.
const LINE_LIMIT: usize = 1 << 20;

/// The objects of a reply, one after the other.
pub(crate) struct Lines<S> {
    reply: S,
    /// What does not make a line yet.
    rest: Vec<u8>,
}

impl<S: Stream<Item = Result<Bytes, Error>> + Unpin> Lines<S> {
    pub(crate) fn new(reply: S) -> Self {
        Self {
            reply,
            rest: Vec::new(),
        }
    }

    /// The next object; `None` after the last. Lines that are none are skipped.
    ///
    /// # Errors
    /// When the stream breaks.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if let Ok(object) = serde_json::from_slice(&line) {
                    return Ok(Some(object));
                }
            }
            if self.rest.len() > LINE_LIMIT {
                return Err(Failure::TooLarge(LINE_LIMIT));
            }
            match self.reply.next().await {
                Some(piece) => self.rest.extend_from_slice(&piece?),
                None => return Ok(None),
            }
        }
    }
}
