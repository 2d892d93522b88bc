//! Batches: several messages in one array.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;

use super::mcp_method::McpMethod;
use super::source::Source;
use super::{Caller, FrameReply, Server};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{DecodeError, Message, Request};

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
        let messages = messages.into_iter();
        let Some(whole) = source.caller.forwarding() else {
            let answers = messages.map(|message| self.message(message, None, source, true));
            return FrameReply::batch(join_all(answers).await.into_iter().flatten());
        };
        let answers = messages.map(async |message| {
            let part = Arc::new(whole.of_message());
            let caller = Caller::clone(source.caller).with_forwarding(Some(Arc::clone(&part)));
            let source = Source {
                caller: &Arc::new(caller),
                ..*source
            };
            (self.message(message, None, &source, true).await, part)
        });
        let mut replies = Vec::new();
        for (reply, part) in join_all(answers).await {
            let is_elsewhere = reply.as_ref().is_some_and(|reply| reply.is_elsewhere);
            whole.add_part(&part, is_elsewhere.then_some(replies.len()));
            replies.extend(reply);
        }
        FrameReply::batch(replies.into_iter())
    }
}

/// Returns a request of a batch as a frame of its own.
pub(super) fn alone(request: &Request<'_>) -> Vec<u8> {
    let (id, method) = (request.id.as_json(), json!(request.method));
    let mut frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}"#);
    if let Some(params) = request.params {
        frame.push_str(r#","params":"#);
        frame.push_str(params.get());
    }
    frame.push('}');
    frame.into_bytes()
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
