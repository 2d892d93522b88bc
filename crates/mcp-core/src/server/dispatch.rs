//! Dispatch of a frame: splits it into messages, decides the era of each, and calls its method.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, FrameReply, MessageReply};
use super::catalog::Catalog;
use super::clients::RequestClient;
use super::context::{OriginalRequest, RequestContext};
use super::method::McpMethod;
use super::params::{Params, or_empty, wrong};
use super::record::RequestRecord;
use super::{IncomingFrame, Server};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{
    DecodeError, Frame, Id, Json, MAX_NESTING, Message, Notification, Request, Response,
    is_too_deep,
};
use crate::tool::{Call, Detail};
use crate::trace::{self, TraceContext};

/// The kind of a failure of which only the result of a tool tells, as the conventions of OpenTelemetry name it.
const TOOL_ERROR: &str = "tool_error";

impl Server {
    /// Answers one frame: a message or a batch.
    ///
    /// Boxed, so that the code of all methods is compiled here, once, and not where it is called.
    pub fn handle<'a>(&'a self, from: IncomingFrame<'a>) -> BoxFuture<'a, FrameReply> {
        // A block, since the future of an `async fn` has its arguments twice.
        Box::pin(async move {
            let message = match Frame::decode(from.frame) {
                // Boxed: few frames are batches.
                Ok(Frame::Batch(messages)) => {
                    return Box::pin(self.batch(messages, &from)).await;
                }
                Ok(Frame::Single(message)) => Ok(message),
                Err(error) => Err(error),
            };
            self.message(message, &from, false)
                .await
                .map_or_else(FrameReply::nothing, FrameReply::single)
        })
    }

    /// Answers the messages of a batch, at the same time.
    async fn batch<'a>(
        &self,
        messages: Vec<Result<Message<'a>, DecodeError<'a>>>,
        from: &IncomingFrame<'_>,
    ) -> FrameReply {
        let era = from.era("", None);
        if !era.allows_batch() {
            return FrameReply::single(self.refuse(None, era, &no_batches(era)));
        }
        let answers = messages.into_iter();
        let answers = answers.map(|message| self.message(message, from, true));
        FrameReply::batch(join_all(answers).await.into_iter().flatten())
    }

    /// Answers one message; `None` if it is not a request.
    async fn message<'a>(
        &self,
        message: Result<Message<'a>, DecodeError<'a>>,
        from: &IncomingFrame<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        match message {
            Ok(Message::Request(request)) => {
                let params = Params::read(request.params);
                self.request(request, &params, from, in_batch).await
            }
            Ok(Message::Notification(notification)) => {
                notified(&notification, from);
                None
            }
            Ok(Message::Response(response)) => {
                if let Some(connection) = &from.connection {
                    connection.answered(&response);
                }
                None
            }
            Err(error) => {
                let era = from.era("", None);
                Some(self.refuse_at_once(error.id, era, &error.fault.into()))
            }
        }
    }

    /// Answers one request; `None` if the client has cancelled it.
    async fn request<'a>(
        &self,
        request: Request<'a>,
        params: &Params<'a>,
        from: &IncomingFrame<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        let era = from.era(&request.method, params.meta);
        // Cancelling by request id needs a connection.
        let cancelled = from.caller.cancelled.as_deref();
        let request_token = from.connection.as_ref().map(|_| {
            let token = cancelled.map(CancellationToken::child_token);
            token.unwrap_or_default()
        });
        let entered = from.connection.as_ref().zip(request_token.clone());
        let entered = entered.map(|(connection, token)| connection.enter(request.id, token));
        let _in_flight = match entered.transpose() {
            Ok(guard) => guard,
            Err(error) => return Some(self.refuse_at_once(Some(request.id), era, &error)),
        };
        let request_token = request_token.as_ref();
        let record = RequestRecord::begin(self, &request, params, era, from);
        let answer = self.answer(&record, request_token.or(cancelled), in_batch);
        let answer = pin!(AssertUnwindSafe(answer).catch_unwind());
        let answer = trace::within(record.trace.clone(), answer).await;
        let answer = answer.unwrap_or_else(|_| {
            tracing::error!(method = %request.method, "panicked");
            Err(Error::Internal)
        });
        if request_token.is_some_and(CancellationToken::is_cancelled) {
            return None;
        }
        let reply = self.reply(request.id, era, answer);
        if let (Some(connection), Some(found)) = (&from.connection, &reply.negotiated) {
            connection.set_negotiated(found.clone());
        }
        record.answered(&reply);
        Some(reply)
    }

    /// Computes the answer to a request, in the form of its era.
    async fn answer(
        &self,
        record: &RequestRecord<'_>,
        cancelled: Option<&CancellationToken>,
        in_batch: bool,
    ) -> Result<Answer, Error> {
        if in_batch {
            check_batched(record.method, record.era)?;
        }
        let context = self.context(record, cancelled)?;
        let answer = self.call(&context).await?;
        if matches!(answer, Answer::NeedsInput(_)) {
            // The last round is recorded.
            record.leave_audit();
        }
        Ok(match context.era {
            Era::Modern => self.decorate(&context, answer),
            Era::Legacy(_) | Era::Unversioned => answer,
        })
    }

    /// Builds the context of a request; its errors come before any work.
    fn context<'a>(
        &self,
        record: &'a RequestRecord<'a>,
        cancelled: Option<&CancellationToken>,
    ) -> Result<RequestContext<'a>, Error> {
        let (caller, meta) = (record.caller(), record.params.meta());
        let client = match (record.era, &record.from.connection) {
            (Era::Modern, _) => self.modern_client(record)?,
            (Era::Legacy(_), Some(connection)) => RequestClient::legacy(caller, connection),
            _ => RequestClient::unversioned(caller),
        };
        let client = Arc::new(client);
        let mut call = Call::new(Arc::<RequestClient>::clone(&client), cancelled.cloned());
        let token = meta.progress_token();
        if let Some(token) = token.filter(|_| record.method.calls_tool()) {
            call = call.with_progress(token.to_owned());
        }
        if self.features.relays {
            let original = self.original(record)?;
            call = call.with_extension(Arc::new(original));
        }
        if let Some(round) = client.round().filter(|round| !round.is_empty()) {
            call = call.with_extension(Arc::clone(round));
        }
        Ok(RequestContext {
            record,
            call,
            client,
        })
    }

    /// Describes a request for calls that relay it.
    fn original(&self, record: &RequestRecord<'_>) -> Result<OriginalRequest, Error> {
        let params = record.params.text().unwrap_or_default();
        if is_too_deep(params) {
            let reason = format!("is nested deeper than {MAX_NESTING} levels");
            return Err(wrong("params", &reason));
        }
        let IncomingFrame {
            caller, connection, ..
        } = record.from;
        let trace = record.trace.clone();
        Ok(OriginalRequest {
            params: params.into(),
            trace: trace.unwrap_or_else(|| TraceContext::for_request(None)),
            era: record.era,
            timeout: self.settings.call_timeout,
            connection: connection.clone(),
            caller: caller.clone(),
            client: record.client.clone(),
            notes: record.notes.clone().unwrap_or_default(),
        })
    }

    /// Calls the method; the table for all eras. The future of each call has room for the largest one that is not boxed.
    async fn call(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        match context.method {
            McpMethod::Initialize => self.initialize(context),
            McpMethod::Ping => Ok(json!({}).into()),
            McpMethod::Discover => Ok(self.discover(context.caller()).into()),
            McpMethod::ListTools => self.page(context, |catalog| catalog.tool_list(context.era)),
            McpMethod::CallTool => self.call_tool(context).await,
            McpMethod::ListResources => self.page(context, |catalog| catalog.resource_list(false)),
            McpMethod::ListTemplates => self.page(context, |catalog| catalog.resource_list(true)),
            McpMethod::ReadResource => self.read_resource(context).await,
            McpMethod::Subscribe => Box::pin(self.subscribe(context)).await,
            McpMethod::Unsubscribe => self.unsubscribe(context),
            McpMethod::ListPrompts => self.page(context, Catalog::prompt_list),
            McpMethod::GetPrompt => self.get_prompt(context).await,
            McpMethod::Complete => Box::pin(self.complete(context)).await,
            McpMethod::SetLogLevel => self.set_log_level(context),
            McpMethod::Listen => Box::pin(self.listen(context)).await,
            McpMethod::GetTask => Box::pin(self.get_task(context)).await,
            McpMethod::TaskResult => Box::pin(self.task_result(context)).await,
            McpMethod::ListTasks => Box::pin(self.list_tasks(context)).await,
            McpMethod::UpdateTask => Box::pin(self.update_task(context)).await,
            McpMethod::CancelTask => Box::pin(self.cancel_task(context)).await,
            McpMethod::Seed001ListTools => {
                let catalog = self.catalog_of(context.caller());
                Ok(catalog.tools_with(Detail::Seed001).clone().into())
            }
            McpMethod::Seed001CallTool => self.seed_001_call_tool(context).await,
            McpMethod::Seed001ServerInfo => Ok(self.seed_001_server_info(context.caller()).into()),
            McpMethod::Custom => self.custom(context).await,
        }
    }

    /// Answers a method that is not part of the specification.
    async fn custom(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let method = &*context.request.method;
        let mut methods = self.features.methods.iter();
        let found = methods.find(|(name, _)| *name == method);
        let (name, bound) = found.ok_or_else(|| Error::MethodNotFound {
            method: method.to_owned(),
            similar: self.similar_method(method, context.era),
        })?;
        let answer = bound.start(or_empty(context.params.raw)?, &context.call)?;
        let answer = self.within_limits(name, context, answer).await;
        context.answer(answer, Answer::from)
    }

    /// A list that is one page.
    fn page(
        &self,
        context: &RequestContext<'_>,
        list: impl FnOnce(&Catalog) -> &Json,
    ) -> Result<Answer, Error> {
        context.params.check_cursor()?;
        Ok(list(&self.catalog_of(context.caller())).clone().into())
    }

    /// Refuses a message without any work, and counts it.
    fn refuse_at_once<'a>(&self, id: Option<Id<'a>>, era: Era, error: &Error) -> MessageReply<'a> {
        let reply = self.refuse(id, era, error);
        self.health.record(false, Duration::ZERO);
        reply
    }

    /// Builds the reply to a request.
    fn reply<'a>(&self, id: Id<'a>, era: Era, answer: Result<Answer, Error>) -> MessageReply<'a> {
        let (json, error, negotiated) = match answer {
            Ok(Answer::Whole(json) | Answer::Task(json)) => (json, None, None),
            Ok(Answer::Result { json, failed, .. }) => (json, failed.then_some(TOOL_ERROR), None),
            Ok(Answer::Initialized(json, negotiated)) => (json, None, Some(negotiated)),
            // Only calls of the modern era end with questions, which are a result by now.
            Ok(Answer::NeedsInput(_)) => return self.refuse(Some(id), era, &Error::Internal),
            Err(error) => return self.refuse(Some(id), era, &error),
        };
        MessageReply {
            response: Response {
                id: Some(id),
                outcome: Ok(json),
            },
            status: 200,
            error,
            negotiated,
        }
    }

    fn refuse<'a>(&self, id: Option<Id<'a>>, era: Era, error: &Error) -> MessageReply<'a> {
        let status = match era {
            // Seed 000: only the body tells errors.
            Era::Unversioned => 200,
            Era::Legacy(_) if matches!(error, Error::Parse(_) | Error::InvalidRequest { .. }) => {
                400
            }
            Era::Legacy(_) => 200,
            Era::Modern => error.modern_status(),
        };
        let outcome = Err(error.render(era, self.settings.error_codes));
        MessageReply {
            response: Response { id, outcome },
            status,
            error: Some(error.kind()),
            negotiated: None,
        }
    }
}

/// Returns an error for a request that must not be part of a batch.
fn check_batched(method: McpMethod, era: Era) -> Result<(), Error> {
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

/// Handles a notification. `initialized` and `notifications/initialized` are the same (seed 003), and
/// unknown ones are ignored, as JSON-RPC demands.
fn notified(notification: &Notification<'_>, from: &IncomingFrame<'_>) {
    tracing::trace!(method = %notification.method, "notification");
    if let ("notifications/cancelled", Some(connection)) = (&*notification.method, &from.connection)
    {
        connection.cancel(notification.params);
    }
}
