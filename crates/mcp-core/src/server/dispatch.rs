//! Dispatches a frame: splits it into messages, decides the era of each, and calls its method.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::audit::{AuditNotes, AuditRecord};
use super::batch::check_batched;
use super::catalog::CatalogView;
use super::context::Context;
use super::legacy_client::LegacyClient;
use super::mcp_method::McpMethod;
use super::modern_client::ModernClient;
use super::operation::Operation;
use super::outcome::{MethodResult, Outcome};
use super::params::{Params, wrong};
use super::received::ReceivedRequest;
use super::reply::MessageReply;
use super::request_span::RequestSpan;
use super::source::Source;
use super::without_reply::{answered, notified};
use super::{Caller, FrameReply, IncomingFrame, OriginalRequest, Sender, Server};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{
    DecodeError, Frame, Id, Json, MAX_NESTING, Message, Request, Response, is_too_deep,
};
use crate::tool::{Call, Client};
use crate::trace::{self, TraceContext};

impl Server {
    /// Answers one frame: a message or a batch.
    ///
    /// Boxed, so that the code of all methods is compiled here, once, and not where it is called.
    pub fn handle<'a>(&'a self, incoming: IncomingFrame<'a>) -> BoxFuture<'a, FrameReply> {
        // A block, since the future of an `async fn` has its arguments twice.
        Box::pin(async move {
            let connection = incoming.connection.as_ref();
            let negotiated = connection.and_then(|connection| connection.negotiated());
            let mut hints = incoming.hints;
            hints.negotiated = hints.negotiated.or(negotiated.map(|found| found.revision));
            let source = Source {
                hints: &hints,
                connection,
                caller: &Arc::new(incoming.caller),
            };
            let message = match Frame::decode(incoming.frame) {
                // Boxed: few frames are batches.
                Ok(Frame::Batch(messages)) => {
                    return Box::pin(self.batch(messages, &source)).await;
                }
                Ok(Frame::Single(message)) => Ok(message),
                Err(error) => Err(error),
            };
            self.message(message, &source, false)
                .await
                .map_or_else(FrameReply::accepted, FrameReply::single)
        })
    }

    /// Answers one message; `None` if it is not a request.
    pub(super) async fn message<'a>(
        &self,
        message: Result<Message<'a>, DecodeError<'a>>,
        source: &Source<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        match message {
            Ok(Message::Request(request)) => {
                let params = Params::read(request.params);
                self.request(request, &params, source, in_batch).await
            }
            Ok(Message::Notification(notification)) => {
                notified(&notification, source);
                None
            }
            Ok(Message::Response(response)) => {
                answered(&response, source);
                None
            }
            Err(error) => {
                let era = Era::from_headers(source.hints);
                Some(self.refuse_at_once(error.id, era, &error.fault.into()))
            }
        }
    }

    /// Answers one request; `None` if the client has cancelled it.
    async fn request<'a>(
        &self,
        request: Request<'a>,
        params: &Params<'a>,
        source: &Source<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        let started = self.clock.uptime();
        let era = Era::decide_by_meta(source.hints, &request.method, params.meta);
        // Cancelling by request id needs a connection.
        let cancelled = source.caller.cancellation();
        let request_token = source.connection.map(|_| {
            let token = cancelled.map(CancellationToken::child_token);
            token.unwrap_or_default()
        });
        let entered = source.connection.zip(request_token.clone());
        let entered = entered.map(|(connection, token)| connection.enter(request.id, token));
        let _in_flight = match entered.transpose() {
            Ok(guard) => guard,
            Err(error) => return Some(self.refuse_at_once(Some(request.id), era, &error)),
        };
        let request_token = request_token.as_ref();
        let of_meta = || params.meta().trace();
        let parent = of_meta().or_else(|| TraceContext::parse(source.hints.trace));
        let received = ReceivedRequest {
            request: &request,
            params,
            era,
            source,
            started,
        };
        let (mut span, context) = match RequestSpan::begin(self, received, parent.as_ref()) {
            Some((span, context)) => (Some(span), Some(context)),
            // Only servers that relay need a trace that the client has not started.
            None if parent.is_some() || self.features.relays => {
                (None, Some(TraceContext::for_request(parent.as_ref())))
            }
            None => (None, None),
        };
        let is_recorded = self.features.relays || self.features.audit.is_some();
        let control = Control {
            operation: Operation::new(self, self.method(&request.method, era), started),
            cancelled: request_token.or(cancelled),
            trace: context.clone().filter(|_| self.features.relays),
            notes: is_recorded.then(Arc::default),
            sender: match is_recorded {
                true => Sender::new(&params.meta(), source.connection, source.caller.address()),
                false => Sender::default(),
            },
        };
        let notes = control.notes.as_ref();
        let mut record = notes.and_then(|notes| {
            let trace = context.as_ref();
            let sender = control.sender;
            AuditRecord::new(self, received, sender, trace, notes)
        });
        let outcome = self.outcome(&request, params, era, source, &control, in_batch);
        let outcome = pin!(AssertUnwindSafe(outcome).catch_unwind());
        let outcome = trace::within(context.clone(), outcome).await;
        let outcome = outcome.unwrap_or_else(|_| {
            tracing::error!(method = %request.method, "panicked");
            Err(Error::Internal)
        });
        if request_token.is_some_and(CancellationToken::is_cancelled) {
            return None;
        }
        let took = control.operation.end(&outcome);
        let reply = match outcome {
            Ok(result) => {
                if let (Some(connection), Some(found)) = (source.connection, result.negotiated) {
                    connection.set_negotiated(found);
                }
                MessageReply {
                    succeeded: !result.is_error,
                    negotiated: result.negotiated,
                    response: Response {
                        id: Some(request.id),
                        outcome: Ok(result.json),
                    },
                    status: 200,
                }
            }
            Err(error) => self.refuse(Some(request.id), era, &error),
        };
        self.health.record(reply.succeeded, took);
        if let Some(record) = &mut record {
            record.answered(&reply, took);
        }
        if let Some(span) = &mut span {
            span.answered(&reply);
        }
        Some(reply)
    }

    /// Computes the result of a request, in the form of its era.
    async fn outcome(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        era: Era,
        source: &Source<'_>,
        control: &Control<'_>,
        in_batch: bool,
    ) -> Result<MethodResult, Error> {
        let method = control.operation.method;
        if in_batch {
            check_batched(method, era)?;
        }
        let context = self.context(request, params, method, era, source, control)?;
        let outcome = self.answer(method, &request.method, &context).await?;
        if matches!(outcome, Outcome::NeedsInput(_)) {
            // The last round is recorded.
            control.notes.iter().for_each(|notes| notes.take_over());
        }
        match (outcome, era) {
            (outcome, Era::Modern) => Ok(self.decorate(method, &request.method, &context, outcome)),
            (Outcome::Done(result), _) => Ok(result),
            // Only calls of the modern era end with questions.
            (Outcome::NeedsInput(_), _) => Err(Error::Internal),
        }
    }

    /// Builds the context of a request; its errors come before any work.
    fn context<'a>(
        &self,
        request: &Request<'a>,
        params: &'a Params<'a>,
        method: McpMethod,
        era: Era,
        source: &Source<'a>,
        control: &'a Control<'a>,
    ) -> Result<Context<'a>, Error> {
        let mut modern = None;
        let (client, meta): (Arc<dyn Client>, _) = match (era, source.connection) {
            (Era::Modern, _) => {
                let (client, meta) = self.modern_client(request, method, params, source)?;
                modern = Some(Arc::clone(&client));
                (client, meta)
            }
            (Era::Legacy(_), Some(connection)) => {
                let client = LegacyClient::new(source.caller, connection);
                (Arc::new(client), params.meta())
            }
            _ => (Arc::<Caller>::clone(source.caller), params.meta()),
        };
        let mut call = Call::new(client, control.cancelled.cloned());
        let token = meta.progress_token().filter(|_| method.calls_tool());
        if let Some(token) = token {
            call = call.with_progress(token.to_owned());
        }
        if self.features.relays {
            let params = params.text().unwrap_or_default();
            if is_too_deep(params) {
                let reason = format!("is nested deeper than {MAX_NESTING} levels");
                return Err(wrong("params", &reason));
            }
            call = call.with_extension(Arc::new(OriginalRequest {
                params: params.into(),
                trace: match &control.trace {
                    Some(trace) => trace.clone(),
                    None => TraceContext::for_request(None),
                },
                era,
                timeout: self.settings.call_timeout,
                connection: source.connection.cloned(),
                principal: source.caller.principal().cloned(),
                view: source.caller.view().cloned(),
                sender: control.sender,
                revoked: source.caller.revocation().cloned(),
                left: source.caller.disconnection().cloned(),
                notes: control.notes.clone().unwrap_or_default(),
            }));
        }
        let round = modern.as_deref().and_then(ModernClient::round);
        if let Some(round) = round.filter(|round| !round.is_empty()) {
            call = call.with_extension(Arc::clone(round));
        }
        Ok(Context {
            era,
            id: request.id,
            params,
            connection: source.connection,
            caller: source.caller,
            call,
            operation: &control.operation,
            client: modern,
        })
    }

    /// Calls the method; the table for all eras. The future of each call has room for the largest one that is not boxed.
    async fn answer(
        &self,
        method: McpMethod,
        name: &str,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        match method {
            McpMethod::Initialize => self.initialize(context),
            McpMethod::Ping => Ok(json!({}).into()),
            McpMethod::Discover => Ok(self.discover(context.caller).into()),
            McpMethod::ListTools => self.page(context, |catalog| catalog.tool_list(context.era)),
            McpMethod::CallTool => self.call_tool(context).await,
            McpMethod::ListResources => self.page(context, CatalogView::resource_list),
            McpMethod::ListTemplates => self.page(context, CatalogView::template_list),
            McpMethod::ReadResource => self.read_resource(context).await,
            McpMethod::Subscribe => Box::pin(self.subscribe(context)).await,
            McpMethod::Unsubscribe => self.unsubscribe(context),
            McpMethod::ListPrompts => self.page(context, CatalogView::prompt_list),
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
                let catalog = self.catalog_of(context.caller);
                Ok(catalog.seed_001_list().clone().into())
            }
            McpMethod::Seed001CallTool => self.seed_001_call_tool(context).await,
            McpMethod::Seed001ServerInfo => Ok(self.seed_001_server_info(context.caller).into()),
            McpMethod::Custom => self.custom(name, context).await,
        }
    }

    /// A list that is one page.
    fn page(
        &self,
        context: &Context<'_>,
        list: impl FnOnce(&CatalogView) -> &Json,
    ) -> Result<Outcome, Error> {
        context.params.check_cursor()?;
        Ok(list(&self.catalog_of(context.caller)).clone().into())
    }

    /// Refuses a message without any work, and counts it.
    fn refuse_at_once<'a>(&self, id: Option<Id<'a>>, era: Era, error: &Error) -> MessageReply<'a> {
        let reply = self.refuse(id, era, error);
        self.health.record(reply.succeeded, Duration::ZERO);
        reply
    }

    pub(super) fn refuse<'a>(
        &self,
        id: Option<Id<'a>>,
        era: Era,
        error: &Error,
    ) -> MessageReply<'a> {
        let status = match era {
            // Seed 000: only the body tells errors.
            Era::Unversioned => 200,
            Era::Legacy(_) if matches!(error, Error::Parse(_) | Error::InvalidRequest { .. }) => {
                400
            }
            Era::Legacy(_) => 200,
            Era::Modern => error.modern_status(),
        };
        let outcome = Err(error.render(era, self.settings.profile));
        MessageReply {
            response: Response { id, outcome },
            status,
            succeeded: false,
            negotiated: None,
        }
    }
}

/// The ties of a request to the outside: its cancellation, its audit, its metrics, its sender and its span.
struct Control<'a> {
    operation: Operation<'a>,
    cancelled: Option<&'a CancellationToken>,
    /// `None` where nothing records or relays the request.
    notes: Option<Arc<AuditNotes>>,
    sender: Sender,
    trace: Option<TraceContext>,
}
