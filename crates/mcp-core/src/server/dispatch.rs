//! From a frame to its answer: which messages it holds, in which era each of them is, and which
//! method answers it.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::Reply;
use super::offered::Offered;
use super::{Answer, Connection, Incoming, MAX_BATCH, Outcome, Server};
use crate::era::{Era, Hints};
use crate::error::Error;
use crate::jsonrpc::{DecodeError, Frame, Id, Json, Message, Notification, Request, Response};
use crate::tool::{Call, Inputs, Origin};

impl Server {
    /// Answers one frame: a message or a batch.
    pub async fn handle(&self, incoming: Incoming<'_>) -> Answer {
        let Incoming {
            frame,
            mut hints,
            connection,
            call,
        } = incoming;
        let agreed = connection
            .as_ref()
            .and_then(|connection| connection.agreed());
        hints.negotiated = hints.negotiated.or(agreed.map(|agreed| agreed.revision));
        let source = Source {
            hints: &hints,
            connection: connection.as_ref(),
            call: &call,
        };
        let message = match Frame::decode(frame) {
            Ok(Frame::Batch(messages)) => return self.batch(messages, &source).await,
            Ok(Frame::Single(message)) => Ok(message),
            Err(error) => Err(error),
        };
        self.message(message, &source, false)
            .await
            .map_or_else(Answer::accepted, Answer::single)
    }

    async fn batch<'a>(
        &self,
        messages: Vec<Result<Message<'a>, DecodeError<'a>>>,
        source: &Source<'_>,
    ) -> Answer {
        let era = Era::of_unreadable(source.hints);
        let refusal = if !era.allows_batch() {
            Some(format!("{} has no batches", era.revision()))
        } else if messages.len() > MAX_BATCH {
            Some(format!("a batch holds at most {MAX_BATCH} messages"))
        } else {
            None
        };
        if let Some(detail) = refusal {
            return Answer::single(self.refuse(
                None,
                era,
                &Error::InvalidRequest {
                    detail,
                    field: None,
                },
            ));
        }
        let replies = join_all(
            messages
                .into_iter()
                .map(|message| self.message(message, source, true)),
        );
        Answer::batch(replies.await.into_iter().flatten())
    }

    /// Answers one message; `None` for what wants no answer.
    async fn message<'a>(
        &self,
        message: Result<Message<'a>, DecodeError<'a>>,
        source: &Source<'_>,
        in_batch: bool,
    ) -> Option<Reply<'a>> {
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
                Era::of_unreadable(source.hints),
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
    ) -> Option<Reply<'a>> {
        let era = Era::decide(source.hints, &request.method, request.params);
        let origin;
        let source = if self.offer.relays {
            let call = source.call.clone().with_origin(Origin::of(
                &request,
                source.hints,
                era,
                self.settings.call_timeout,
            ));
            origin = call;
            &Source {
                call: &origin,
                ..*source
            }
        } else {
            source
        };
        // Only who has a connection can name a request to cancel it.
        let (call, in_flight) = match source.connection {
            Some(connection) => {
                let (call, token) = source.call.cancellable();
                (Cow::Owned(call), Some(connection.enter(request.id, token)))
            }
            None => (Cow::Borrowed(source.call), None),
        };
        let outcome = match era {
            Era::Modern if in_batch => {
                let detail = format!("{} has no batches", era.revision());
                Err(Error::InvalidRequest {
                    detail,
                    field: None,
                })
            }
            Era::Modern => {
                let call = call.clone().into_owned();
                // Large: a batch, which is of the other eras, would hold room for it many times.
                Box::pin(self.modern(&request, source.hints, call)).await
            }
            Era::Plain | Era::Handshake(_) => {
                self.classic(&request, era, source.connection, &call, in_batch)
                    .await
            }
        };
        if in_flight.is_some() && call.is_cancelled() {
            return None;
        }
        Some(match outcome {
            Ok(result) => {
                if let (Some(connection), Some(agreed)) = (source.connection, result.agreed) {
                    connection.agree(agreed);
                }
                Reply {
                    succeeded: !result.is_error,
                    agreed: result.agreed,
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

    /// The methods of the plain and the handshake era.
    async fn classic(
        &self,
        request: &Request<'_>,
        era: Era,
        connection: Option<&Arc<Connection>>,
        call: &Call,
        in_batch: bool,
    ) -> Result<Outcome, Error> {
        let params = request.params;
        let asking;
        let call = match (era, connection) {
            (Era::Handshake(_), Some(connection)) => {
                asking = call
                    .clone()
                    .with_inputs(Inputs::over(connection))
                    .with_log_level(Some(connection.log_level()));
                &asking
            }
            _ => call,
        };
        let connection = connection.map(|connection| &**connection);
        match &*request.method {
            "initialize" if in_batch => {
                let detail = "initialize must not be part of a batch".to_owned();
                Err(Error::InvalidRequest {
                    detail,
                    field: Some("method"),
                })
            }
            "initialize" => self.initialize(params),
            "ping" => Ok(json!({}).into()),
            "tools/list" => self.list_tools(params, era),
            "tools/call" => self.call_tool(params, era, call).await,
            // Clients ask for these lists whatever was declared (seed 003).
            "resources/list" => self.page(params, |offered| &offered.resource_list),
            "resources/templates/list" => self.page(params, |offered| &offered.template_list),
            "prompts/list" => self.page(params, |offered| &offered.prompt_list),
            "resources/read" => self.read_resource(params, era, call).await,
            "resources/subscribe" => self.subscribe(params, connection, true),
            "resources/unsubscribe" => self.subscribe(params, connection, false),
            "prompts/get" => self.get_prompt(params, era, call).await,
            "completion/complete" => self.completion(params, call).await,
            "logging/setLevel" => self.set_log_level(params, connection),
            "tasks/get" if self.has_tasks(era) => self.get_task(params, call),
            "tasks/result" if self.has_tasks(era) => {
                self.task_result(params, connection, call).await
            }
            "tasks/list" if self.has_tasks(era) => self.list_tasks(params, call),
            "tasks/cancel" if self.has_tasks(era) => self.cancel_task(params, call),
            "mcp.listTools" => Ok(self.legacy_list_tools().into()),
            "mcp.callTool" => self.legacy_call_tool(params, call).await,
            "mcp.getServerInfo" => Ok(self.legacy_server_info().into()),
            custom => self.custom(custom, params, call).await,
        }
    }

    /// A list that is one page.
    fn page(
        &self,
        params: Option<&RawValue>,
        list: impl FnOnce(&Offered) -> &Json,
    ) -> Result<Outcome, Error> {
        self.check_cursor(params)?;
        Ok(list(&self.offered()).clone().into())
    }

    fn refuse<'a>(&self, id: Option<Id<'a>>, era: Era, error: &Error) -> Reply<'a> {
        let status = match era {
            // Seed 000: the body tells, HTTP only says that there is one.
            Era::Plain => 200,
            Era::Handshake(_)
                if matches!(error, Error::Parse(_) | Error::InvalidRequest { .. }) =>
            {
                400
            }
            Era::Handshake(_) => 200,
            Era::Modern => error.modern_status(),
        };
        let outcome = Err(error.render(era, self.settings.profile));
        Reply {
            response: Response { id, outcome },
            status,
            succeeded: false,
            agreed: None,
        }
    }
}

/// Where a message came from.
struct Source<'a> {
    hints: &'a Hints<'a>,
    connection: Option<&'a Arc<Connection>>,
    call: &'a Call,
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
