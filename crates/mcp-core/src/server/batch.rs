//! Batches: several messages in one array.

use futures_util::future::join_all;

use super::mcp_method::McpMethod;
use super::source::Source;
use super::{FrameReply, Server};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{DecodeError, Message};

impl Server {
    /// Answers the messages of a batch, at the same time.
    pub(super) async fn batch<'a>(
        &self,
        messages: Vec<Result<Message<'a>, DecodeError<'a>>>,
        source: &Source<'_>,
    ) -> FrameReply {
        let era = Era::from_headers(source.hints);
        if !era.allows_batch() {
            return FrameReply::single(self.refuse(None, era, &no_batches(era)));
        }
        let answers = messages.into_iter();
        let answers = answers.map(|message| self.message(message, source, true));
        FrameReply::batch(join_all(answers).await.into_iter().flatten())
    }
}

/// Returns an error for a request that must not be part of a batch.
pub(super) fn check_batched(method: McpMethod, era: Era) -> Result<(), Error> {
    match (era, method) {
        (Era::Modern, _) => Err(no_batches(era)),
        (_, McpMethod::Initialize) => Err(Error::InvalidRequest {
            detail: "initialize must not be part of a batch".to_owned(),
            field: Some("method"),
        }),
        _ => Ok(()),
    }
}

fn no_batches(era: Era) -> Error {
    Error::InvalidRequest {
        detail: format!("{} does not support batches", era.revision()),
        field: None,
    }
}
