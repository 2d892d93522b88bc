//! From a frame to its answer: which messages it holds, in which era each of them is, and which
//! method answers it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::catalog::Catalog;
use super::context::Context;
use super::legacy_client::LegacyClient;
use super::mcp_method::McpMethod;
use super::modern_client::ModernClient;
use super::outcome::{MethodResult, Outcome};
use super::params::Params;
use super::reply::MessageReply;
use super::{Caller, Connection, FrameReply, IncomingFrame, OriginalRequest, Server};
use crate::era::{Era, Hints};
use crate::error::Error;
use crate::jsonrpc::{
    DecodeError, Frame, Id, Json, Members, Message, Notification, Request, Response,
};
use crate::tool::{Call, Client};

impl Server {
    /// Answers one frame: a message or a batch.
    pub async fn handle(&self, incoming: IncomingFrame<'_>) -> FrameReply {
        let IncomingFrame {
            frame,
            mut hints,
            connection,
            caller,
        } = incoming;
        let agreed = connection
            .as_ref()
            .and_then(|connection| connection.negotiated());
        hints.negotiated = hints.negotiated.or(agreed.map(|agreed| agreed.revision));
        let source = Source {
            hints: &hints,
            connection: connection.as_ref(),
            caller: &Arc::new(caller),
        };
        let message = match Frame::decode(frame) {
            Ok(Frame::Batch(messages)) => return self.batch(messages, &source).await,
            Ok(Frame::Single(message)) => Ok(message),
            Err(error) => Err(error),
        };
        self.message(message, &source, false)
            .await
            .map_or_else(FrameReply::accepted, FrameReply::single)
    }

    async fn batch<'a>(
        &self,
        messages: Vec<Result<Message<'a>, DecodeError<'a>>>,
        source: &Source<'_>,
    ) -> FrameReply {
        let era = Era::from_headers(source.hints);
        if !era.allows_batch() {
            let refusal = Error::InvalidRequest {
                detail: format!("{} has no batches", era.revision()),
                field: None,
            };
            return FrameReply::single(self.refuse(None, era, &refusal));
        }
        let replies = join_all(
            messages
                .into_iter()
                .map(|message| self.message(message, source, true)),
        );
        FrameReply::batch(replies.await.into_iter().flatten())
    }

    /// Answers one message; `None` for what wants no answer.
    async fn message<'a>(
        &self,
        message: Result<Message<'a>, DecodeError<'a>>,
        source: &Source<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        let started = self.clock.uptime();
        let reply = match message {
            Ok(Message::Request(request)) => self.request(request, source, in_batch).await?,
            Ok(Message::Notification(notification)) => {
                notified(&notification, source);
                return None;
            }
            Ok(Message::Response(response)) => {
                if let Some(connection) = source.connection {
                    connection.answered(&response);
                }
                return None;
            }
            Err(error) => self.refuse(
                error.id,
                Era::from_headers(source.hints),
                &error.fault.into(),
            ),
        };
        self.health
            .record(reply.succeeded, self.clock.uptime().saturating_sub(started));
        Some(reply)
    }

    /// Answers one request; `None` if the client cancelled it, for it then waits for no answer.
    async fn request<'a>(
        &self,
        request: Request<'a>,
        source: &Source<'_>,
        in_batch: bool,
    ) -> Option<MessageReply<'a>> {
        let params = Params::read(request.params);
        let era = Era::decide_by_meta(source.hints, &request.method, params.meta);
        // Only who has a connection can name a request to cancel it.
        let cancelled = source.caller.cancellation();
        let in_flight = source.connection.map(|connection| {
            let token = cancelled.map(CancellationToken::child_token);
            let token = token.unwrap_or_default();
            (token.clone(), connection.enter(request.id, token))
        });
        let given_up = in_flight.as_ref().map(|(token, _)| token);
        let token = given_up.or(cancelled).cloned();
        let outcome = self.outcome(&request, &params, era, source, token, in_batch);
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| {
            tracing::error!(method = %request.method, "panicked");
            Err(Error::Internal)
        });
        if given_up.is_some_and(CancellationToken::is_cancelled) {
            return None;
        }
        Some(match outcome {
            Ok(result) => {
                if let (Some(connection), Some(agreed)) = (source.connection, result.negotiated) {
                    connection.set_negotiated(agreed);
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
        })
    }

    /// Computes the result of a request, in the form of its era.
    async fn outcome(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        era: Era,
        source: &Source<'_>,
        cancelled: Option<CancellationToken>,
        in_batch: bool,
    ) -> Result<MethodResult, Error> {
        let method = self.method(&request.method, era);
        if in_batch {
            check_batched(method, era)?;
        }
        let context = self.context(request, params, method, era, source, cancelled)?;
        let outcome = self.answer(method, &request.method, &context).await?;
        match (outcome, era) {
            (outcome, Era::Modern) => Ok(self.decorate(method, &request.method, &context, outcome)),
            (Outcome::Done(result), _) => Ok(result),
            // Only calls of the modern era end with questions.
            (Outcome::NeedsInput(_), _) => Err(Error::Internal),
        }
    }

    /// Reads what a request says about itself. What is wrong with that is told before anything is
    /// done.
    fn context<'a>(
        &self,
        request: &Request<'a>,
        params: &'a Params<'a>,
        method: McpMethod,
        era: Era,
        source: &Source<'a>,
        cancelled: Option<CancellationToken>,
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
        let mut call = Call::new(client, cancelled);
        let token = meta.progress_token().filter(|_| method.calls_tool());
        if let Some(token) = token {
            call = call.with_progress(token.to_owned());
        }
        if self.features.relays {
            let params = request.params.map(RawValue::get).and_then(Members::read);
            call = call.with_extension(Arc::new(OriginalRequest {
                params: params.unwrap_or_default(),
                traceparent: source.hints.traceparent.map(ToOwned::to_owned),
                era,
                timeout: self.settings.call_timeout,
            }));
        }
        let round = modern.as_deref().and_then(ModernClient::round);
        if let Some(round) = round.filter(|round| !round.is_first()) {
            call = call.with_extension(Arc::clone(round));
        }
        Ok(Context {
            era,
            id: request.id,
            raw: request.params,
            params,
            connection: source.connection,
            caller: source.caller,
            call,
            client: modern,
        })
    }

    /// The one table of methods, for all eras.
    async fn answer(
        &self,
        method: McpMethod,
        name: &str,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        match method {
            McpMethod::Initialize => self.initialize(context.raw),
            McpMethod::Ping => Ok(json!({}).into()),
            McpMethod::Discover => Ok(self.discover().into()),
            McpMethod::ListTools => self.page(context, |catalog| catalog.tools.list(context.era)),
            McpMethod::CallTool => self.call_tool(context).await,
            McpMethod::ListResources => self.page(context, |catalog| &catalog.resource_list),
            McpMethod::ListTemplates => self.page(context, |catalog| &catalog.template_list),
            McpMethod::ReadResource => self.read_resource(context).await,
            McpMethod::Subscribe => self.subscribe(context, true),
            McpMethod::Unsubscribe => self.subscribe(context, false),
            McpMethod::ListPrompts => self.page(context, |catalog| &catalog.prompt_list),
            McpMethod::GetPrompt => self.get_prompt(context).await,
            McpMethod::Complete => self.complete(context).await,
            McpMethod::SetLogLevel => self.set_log_level(context),
            // Large: a batch, which is of the other eras, would hold room for it many times.
            McpMethod::Listen => Box::pin(self.listen(context)).await,
            McpMethod::GetTask => self.get_task(context),
            McpMethod::TaskResult => self.task_result(context).await,
            McpMethod::ListTasks => self.list_tasks(context),
            McpMethod::UpdateTask => self.update_task(context),
            McpMethod::CancelTask => self.cancel_task(context),
            McpMethod::Seed001ListTools => Ok(self.catalog().tools.legacy().clone().into()),
            McpMethod::Seed001CallTool => self.seed_001_call_tool(context).await,
            McpMethod::Seed001ServerInfo => Ok(self.seed_001_server_info().into()),
            McpMethod::Custom => self.custom(name, context).await,
        }
    }

    /// A list that is one page.
    fn page(
        &self,
        context: &Context<'_>,
        list: impl FnOnce(&Catalog) -> &Json,
    ) -> Result<Outcome, Error> {
        context.params.check_cursor()?;
        Ok(list(&self.catalog()).clone().into())
    }

    fn refuse<'a>(&self, id: Option<Id<'a>>, era: Era, error: &Error) -> MessageReply<'a> {
        let status = match era {
            // Seed 000: the body tells, HTTP only says that there is one.
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

/// Where a message came from.
pub(super) struct Source<'a> {
    pub(super) hints: &'a Hints<'a>,
    connection: Option<&'a Arc<Connection>>,
    pub(super) caller: &'a Arc<Caller>,
}

/// Fails for a request that must not be part of a batch.
fn check_batched(method: McpMethod, era: Era) -> Result<(), Error> {
    let (detail, field) = match (era, method) {
        (Era::Modern, _) => (format!("{} has no batches", era.revision()), None),
        (_, McpMethod::Initialize) => {
            let detail = "initialize must not be part of a batch";
            (detail.to_owned(), Some("method"))
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidRequest { detail, field })
}

/// Notifications are never answered. `initialized` and `notifications/initialized` are the same
/// (seed 003), and what is unknown is ignored, as JSON-RPC demands.
fn notified(notification: &Notification<'_>, source: &Source<'_>) {
    tracing::trace!(method = %notification.method, "notification");
    if let ("notifications/cancelled", Some(connection)) =
        (&*notification.method, source.connection)
    {
        connection.cancel(notification.params);
    }
}
