//! Continues an execution that waits for a request: of a Wait node, or the next page of a form.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{Call, ToolError};
use n8n_workflow::trace::Trace;
use n8n_workflow::trigger::{WaitsFor, fields_of, waits_for};
use n8n_workflow::{Execution, Id, Node, Status, Workflow};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use upstream::http::Method;
use uuid::Uuid;

use super::find::Search;
use super::follow::{Deadline, ExecutionWatch, MIN_POLL_INTERVAL};
use super::plan::{form_body, webhook_body};
use crate::api::after;
use crate::outcome::Run;
use crate::production_url::{UrlOutcome, UrlRequest};
use crate::service::N8n;
use crate::start_method::StartMethod;

/// The time within which a busy n8n shows that an execution goes on.
const RESUME_TIMEOUT: Duration = Duration::from_secs(8);

/// A node, which of its runs waits, and since when.
type Place = (String, usize, f64);

/// An execution that waits, and the request that continues it.
pub(crate) struct Resumption {
    execution: Id,
    pub(crate) place: Place,
    request: UrlRequest,
    workflow: Id,
}

/// The data of an execution that waits, as n8n saves it. Gives access to it: never shown.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WaitingData {
    resume_token: Option<String>,
}

impl Resumption {
    /// The request for `execution`, which waits, with the `parameters` for its node.
    pub(crate) fn new(
        execution: &Execution,
        workflow: &Workflow,
        parameters: Map<String, Value>,
        n8n: &N8n,
    ) -> Result<Self, ToolError> {
        let id = &execution.id;
        let trace = Trace::read(execution.data.as_deref());
        let is_it = |node: &&Node| trace.last() == Some(node.name());
        let node = workflow.live_nodes().iter().find(is_it).ok_or_else(|| {
            ToolError::conflict(format!(
                "Execution {id} waits at a node that its workflow no longer has. Resume it in n8n."
            ))
        })?;
        let name = node.name();
        let (start, method) = match waits_for(node) {
            WaitsFor::Form => (StartMethod::Form, Method::POST),
            WaitsFor::Request => {
                let method = node.text("httpMethod").unwrap_or("GET").parse();
                (StartMethod::Webhook, method.unwrap_or(Method::GET))
            }
            WaitsFor::Time => {
                return Err(ToolError::conflict(format!(
                    "Execution {id} waits at {name:?} for a time, and continues by itself."
                )));
            }
            WaitsFor::Person => {
                return Err(ToolError::conflict(format!(
                    "Execution {id} waits at {name:?} for the answer of a person: n8n signs the links in \
                     the message that it has sent, so that only those continue it."
                )));
            }
        };
        let (body, mut query) = match start {
            StartMethod::Form => (
                Some(form_body(fields_of(node).as_deref(), parameters)?),
                Vec::new(),
            ),
            _ => webhook_body(&method, parameters),
        };
        let data = execution.data.as_deref();
        let data = data.and_then(|raw| serde_json::from_str::<WaitingData>(raw.get()).ok());
        let token = data.and_then(|data| data.resume_token);
        query.extend(token.map(|token| ("signature".to_owned(), token)));
        let base = match start {
            StartMethod::Form => "form-waiting",
            _ => "webhook-waiting",
        };
        let suffix = node.parameters().get("options");
        let suffix = suffix.and_then(|options| options.get("webhookSuffix")?.as_str());
        let mut path = vec![base.to_owned(), id.to_string()];
        path.extend(suffix.filter(|it| !it.is_empty()).map(str::to_owned));
        Ok(Self {
            execution: id.clone(),
            place: place_of(&trace),
            request: UrlRequest {
                way: start,
                methods: vec![method.clone()],
                method,
                path,
                query,
                headers: Vec::new(),
                body,
                replies_at_end: false,
                credential: n8n.access()?.credentials.name_for(node).map(str::to_owned),
            },
            workflow: workflow.id.clone(),
        })
    }

    /// True if the execution, read again, still waits where it did.
    pub(crate) fn is_due(&self, now: &Execution) -> bool {
        waits_at(&self.place, now)
    }

    /// Sends the request, and follows the execution until its end or until it waits again.
    pub(crate) async fn send(
        self,
        n8n: &N8n,
        call: &Call,
        wait: Duration,
    ) -> Result<Run, ToolError> {
        let deadline = Deadline::new(call, wait);
        let id = self.execution;
        let (within, request_id) = (deadline.start_timeout(), Uuid::new_v4().to_string());
        let mut pending = n8n
            .urls
            .send(self.request, &self.workflow, &request_id, within)?;
        pending.wait_or(sleep(deadline.remaining())).await?;
        // The workflow may answer with any status behind the node: only the execution shows whether it goes on.
        let refused = match pending.answer() {
            Some(UrlOutcome::Reply(reply)) if !reply.status.is_success() => Some(reply.status),
            _ => None,
        };
        let give_up_at = Instant::now() + RESUME_TIMEOUT;
        let execution = loop {
            let execution = n8n.api.execution(&id, true).await;
            let execution = execution.map_err(|failure| {
                after(
                    "The request that continues the execution was sent.",
                    failure.into(),
                )
            })?;
            let Some(execution) = execution else {
                return Ok(Run::gone(&id));
            };
            if !waits_at(&self.place, &execution) {
                break execution;
            }
            if Instant::now() >= give_up_at {
                let Some(status) = refused else {
                    break execution;
                };
                return Err(ToolError::conflict(format!(
                    "n8n did not continue execution {id}, which waits as before: its URL answered with HTTP {}. \
                     get_execution shows what it waits for.",
                    status.as_u16()
                )));
            }
            sleep(MIN_POLL_INTERVAL).await;
        };
        let search = Search::new(n8n, self.workflow);
        search.store_id(&id);
        let watch = ExecutionWatch {
            n8n,
            search: Arc::new(search),
            deadline,
        };
        let run = watch.follow(execution).await;
        let run = run.unwrap_or_else(|| Run::gone(&id));
        Ok(match refused {
            Some(status) => run.with_note(format!(
                "Its URL answered with HTTP {}: the workflow itself answers so, or n8n refused the request and \
                 somebody else has continued it.",
                status.as_u16()
            )),
            None => run,
        })
    }
}

fn place_of(trace: &Trace) -> Place {
    let (node, run, since) = trace.place().unwrap_or_default();
    (node.to_owned(), run, since)
}

/// True if the execution waits at this place, and not at a later one.
fn waits_at(place: &Place, execution: &Execution) -> bool {
    let trace = Trace::read(execution.data.as_deref());
    execution.status == Status::Waiting && place_of(&trace) == *place
}
