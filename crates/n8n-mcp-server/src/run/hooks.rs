//! Production URLs: the request that starts a run, and what it replies.

use std::future::Future;
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::multipart::fields_of;
use super::outcome::{Run, RunStatus};
use super::{ACTIVATION, ACTIVATION_PAUSE};
use crate::api::{Failure, client, read_capped, under};
use crate::id::Id;
use crate::logins::{Known, Logins};
use crate::plan::{Body, UrlStart};
use crate::trigger::Kind;

/// The header that the trigger keeps and the execution is found by.
pub(super) const REQUEST_ID: &str = "x-mcp-request-id";
/// The page of n8n in the place of a form that it does not know.
const NO_FORM: &[u8] = b"Problem loading form";
/// The largest reply that is read. It only counts where n8n keeps no execution.
const MAX_REPLY: usize = 4 * 1024 * 1024;

/// The production URLs of one n8n.
pub(crate) struct Hooks {
    http: Client,
    base: Url,
    logins: Logins,
}

/// A request to a production URL, under way. It goes on if this is dropped, for as long as its
/// timeout allows: cutting the connection would not stop the run.
pub(super) struct Hook {
    sending: JoinHandle<Result<Reply, Failure>>,
    answer: Option<Answer>,
    replies_late: bool,
}

/// What came of it.
pub(super) enum Answer {
    Reply(Reply),
    /// Nothing within the time it was given. That is no failure: the run goes on.
    Late,
    /// The connection failed after the request was sent.
    Lost(#[expect(dead_code, reason = "for the log")] Failure),
}

/// What the URL replied.
pub(super) struct Reply {
    status: StatusCode,
    body: Vec<u8>,
    /// n8n knows no such URL: nothing was started.
    unregistered: bool,
}

impl Hooks {
    pub(crate) fn new(base: Url, logins: Logins) -> anyhow::Result<Self> {
        Ok(Self {
            http: client(&base)?,
            base,
            logins,
        })
    }

    /// The credentials of those URLs that ask for one.
    ///
    /// # Errors
    /// When what is configured cannot be read.
    pub(crate) fn logins(&self) -> Result<Known, ToolError> {
        self.logins.read()
    }

    /// Sends the request; the reply may take up to `within`.
    pub(super) fn send(
        &self,
        workflow: &Id,
        start: UrlStart,
        logins: Known,
        request_id: &str,
        within: Duration,
    ) -> Hook {
        let workflow = workflow.clone();
        let request_id = request_id.to_owned();
        let replies_late = start.replies_late;
        let (http, url) = (self.http.clone(), under(&self.base, &start.path));
        let sending = tokio::spawn(async move {
            let exchange = exchange(&http, url, &workflow, &start, &logins, &request_id);
            let replied = timeout(within, exchange).await;
            replied.unwrap_or(Err(Failure::Slow(within)))
        });
        Hook {
            sending,
            answer: None,
            replies_late,
        }
    }
}

/// Sends until n8n knows the URL, which may take a moment. Nothing else is sent twice.
async fn exchange(
    http: &Client,
    mut url: Url,
    workflow: &Id,
    start: &UrlStart,
    logins: &Known,
    request_id: &str,
) -> Result<Reply, Failure> {
    if !start.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&start.query);
    }
    let known_by = Instant::now() + ACTIVATION;
    loop {
        let request = http
            .request(start.method.clone(), url.clone())
            .header(REQUEST_ID, request_id);
        let request = logins.sign(request, start.login.as_deref());
        let request = match &start.body {
            None => request,
            Some(Body::Json(body)) => request.json(body),
            Some(Body::Fields(fields)) => fields_of(request, fields, request_id),
        };
        let response = request.send().await.map_err(Failure::of_sending)?;
        let status = response.status();
        // A reply that is too large to read is a reply: the execution has the truth.
        let body = match read_capped(response, MAX_REPLY).await {
            Err(Failure::TooLarge(_)) => Vec::new(),
            body => body?,
        };
        let unregistered = is_unregistered(workflow, start, status, &body);
        if !unregistered || Instant::now() >= known_by {
            return Ok(Reply {
                status,
                body,
                unregistered,
            });
        }
        sleep(ACTIVATION_PAUSE).await;
    }
}

/// True for what n8n itself says before a new activation has reached all of its parts: each of
/// these is said before anything is started. They name what was asked for, so that a workflow that
/// passes on somebody else's 404 is not taken for it.
fn is_unregistered(workflow: &Id, start: &UrlStart, status: StatusCode, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let [_, path @ ..] = start.path.as_slice() else {
        return false;
    };
    if start.kind == Kind::Form {
        return status == StatusCode::NOT_FOUND
            && body.windows(NO_FORM.len()).any(|at| at == NO_FORM);
    }
    let Ok(Refusal { message }) = serde_json::from_slice(body) else {
        return false;
    };
    let method = &start.method;
    let unknown = format!(
        "The requested webhook \"{method} {}\" is not registered",
        path.join("/")
    );
    let unpublished = format!("version not found for workflow with id \"{workflow}\"");
    // Registered between n8n's two looks: it refuses the method and proposes the same one.
    let just_now =
        format!("not registered for {method} requests. Did you mean to make a {method} ");
    // A chat has two methods, and n8n registers one after the other.
    let half = "not registered for POST requests. Did you mean to make a GET ";
    if start.kind == Kind::Chat && status == StatusCode::NOT_FOUND && message.contains(half) {
        return true;
    }
    status == StatusCode::NOT_FOUND
        && [unknown, unpublished, just_now]
            .iter()
            .any(|said| message.contains(said))
}

impl Hook {
    /// Waits for the answer, at most for `limit`.
    ///
    /// # Errors
    /// When it is certain that nothing was started.
    pub(super) async fn wait(&mut self, limit: Duration) -> Result<(), ToolError> {
        self.wait_or(sleep(limit)).await
    }

    /// Waits for the answer or for `other`; only for `other` if there is an answer.
    ///
    /// # Errors
    /// When it is certain that nothing was started.
    pub(super) async fn wait_or(
        &mut self,
        other: impl Future<Output = ()>,
    ) -> Result<(), ToolError> {
        if self.answer.is_some() {
            other.await;
            return Ok(());
        }
        tokio::select! {
            biased;
            sent = &mut self.sending => {
                let sent = sent.map_err(|error| {
                    ToolError::upstream("The request to n8n was abandoned.").caused_by(error)
                })?;
                self.answer = Some(settle(sent)?);
            }
            () = other => {}
        }
        Ok(())
    }

    pub(super) fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Why the reply means that nothing has run, if it does. For runs that left no execution.
    pub(super) fn refusal(&self) -> Option<ToolError> {
        let Some(Answer::Reply(reply)) = &self.answer else {
            return None;
        };
        let (kind, text) = match reply.status.as_u16() {
            401 | 403 => (
                ToolErrorKind::Unauthorized,
                "The workflow's trigger refused the request: it asks for authentication (the \
                 credential in N8N_WEBHOOK_CREDENTIALS may be wrong), or it allows only certain \
                 addresses or origins, or no bots.",
            ),
            404 => (
                ToolErrorKind::NotFound,
                "The workflow's production URL was not found. If n8n's webhooks have an address of \
                 their own, set N8N_WEBHOOK_URL.",
            ),
            429 | 502..=504 => (
                ToolErrorKind::Unavailable,
                "n8n did not accept the request: it is busy or not ready. Try again in a while.",
            ),
            300..=399 => (
                ToolErrorKind::Upstream,
                "The workflow's production URL redirects. Set N8N_WEBHOOK_URL to the address that \
                 it redirects to.",
            ),
            _ => return None,
        };
        Some(ToolError::new(kind, text).caused_by(format!("HTTP {}", reply.status.as_u16())))
    }

    /// The run as its reply tells it, for one that n8n keeps no execution of.
    pub(super) fn unsaved(&self, id: Option<Id>) -> Run {
        const NOTE: &str = "n8n keeps no execution of this run (the workflow's settings, or \
                            redaction)";
        let reply = match &self.answer {
            Some(Answer::Reply(reply)) if self.replies_late => reply,
            _ => {
                let note = format!("{NOTE}, so its end cannot be seen.");
                return Run::running(id.as_ref()).noting(note);
            }
        };
        let note = format!("{NOTE}; this is what its trigger replied.");
        if reply.status.is_success() {
            let mut run = Run::ended(RunStatus::Completed, id.as_ref());
            run.put_output(vec![reply.as_json()]);
            run.noting(note)
        } else {
            let error = format!("The trigger replied with HTTP {}.", reply.status.as_u16());
            Run::ended(RunStatus::Failed, id.as_ref())
                .failing(None, error)
                .noting(note)
        }
    }
}

/// Tells what may have started something from what has not.
fn settle(sent: Result<Reply, Failure>) -> Result<Answer, ToolError> {
    match sent {
        Ok(reply) if reply.unregistered => Err(ToolError::new(
            ToolErrorKind::Conflict,
            "n8n does not know the production URL of this workflow, although it is active. \
             Deactivate and activate it in n8n; if its webhooks have an address of their own, set \
             N8N_WEBHOOK_URL.",
        )),
        Ok(reply) => Ok(Answer::Reply(reply)),
        Err(Failure::Unreachable(error)) => Err(ToolError::unavailable(
            "n8n's webhooks cannot be reached; nothing was started. If they have an address of \
             their own, set N8N_WEBHOOK_URL.",
        )
        .caused_by(error)),
        Err(Failure::Slow(_)) => Ok(Answer::Late),
        Err(failure) => Ok(Answer::Lost(failure)),
    }
}

impl Reply {
    /// The body, as a JSON string where it is not JSON.
    fn as_json(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&self.body);
            serde_json::value::to_raw_value(&text).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;

    #[test]
    fn only_our_own_url_counts_as_unregistered() {
        let start = UrlStart {
            kind: Kind::Webhook,
            method: Method::POST,
            path: vec!["webhook".into(), "a".into(), "b".into()],
            query: Vec::new(),
            body: None,
            replies_late: true,
            login: None,
        };
        let workflow = Id::try_from("w1".to_owned()).unwrap();
        let check = |status: u16, message: &str| {
            let body = serde_json::json!({"code": 404, "message": message}).to_string();
            let status = StatusCode::from_u16(status).unwrap();
            is_unregistered(&workflow, &start, status, body.as_bytes())
        };
        assert!(check(
            404,
            "The requested webhook \"POST a/b\" is not registered."
        ));
        assert!(check(
            404,
            "Published version not found for workflow with id \"w1\""
        ));
        assert!(check(
            404,
            "This webhook is not registered for POST requests. Did you mean to make a POST request?"
        ));
        assert!(!check(
            200,
            "The requested webhook \"POST a/b\" is not registered."
        ));
        assert!(!check(
            404,
            "The requested webhook \"POST other\" is not registered."
        ));
        assert!(!check(
            404,
            "Active version not found for workflow with id \"w2\""
        ));
        assert!(!check(
            404,
            "This webhook is not registered for POST requests. Did you mean to make a GET request?"
        ));
        assert!(!is_unregistered(
            &workflow,
            &start,
            StatusCode::NOT_FOUND,
            b"<html>"
        ));
    }
}
