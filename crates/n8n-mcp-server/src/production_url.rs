//! Production URLs: the request that starts a run, and what it replies.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::Secret;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};
use upstream::http::multipart::{Form, Part};
use upstream::http::{Client, Fault, HttpFailure, Method, StatusCode};

use crate::id::Id;
use crate::pending::Pending;
use crate::trigger::Way;
use crate::webhook_credentials::WebhookCredentials;

/// The header that the trigger keeps and the execution is found by.
pub(crate) const REQUEST_ID: &str = "x-mcp-request-id";
/// How long n8n refuses an activated workflow, until all of its parts know of it.
pub(crate) const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two tries until then.
pub(crate) const ACTIVATION_INTERVAL: Duration = Duration::from_millis(200);
/// The page of n8n in the place of a form that it does not know.
const NO_FORM: &[u8] = b"Problem loading form";

/// The production URLs of one n8n.
pub(crate) struct ProductionUrls {
    http: Client,
    credentials: Secret,
}

/// A request to a production URL.
#[derive(Debug, PartialEq)]
pub(crate) struct UrlRequest {
    /// A webhook, a chat or a form.
    pub(crate) way: Way,
    pub(crate) method: Method,
    /// Segments below n8n's address.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<Body>,
    /// The reply tells how the run ended.
    pub(crate) replies_late: bool,
    /// Name of the credential that it is sent with.
    pub(crate) credential: Option<String>,
}

/// The body of a request to a production URL.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Json(Value),
    /// A form (`multipart/form-data`), by names of its fields.
    Form(Vec<(String, FormValue)>),
}

/// The value of a field of a form.
#[derive(Debug, PartialEq)]
pub(crate) enum FormValue {
    Text(String),
    File(File),
}

/// A file for a form.
#[derive(Debug, PartialEq)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) content: Vec<u8>,
}

/// The outcome of a request that may have started a run.
pub(crate) enum UrlAnswer {
    Reply(Reply),
    /// Nothing that can be read within the time it was given. That is no failure: the run goes on.
    Late,
    /// The connection failed after the request was sent.
    Lost,
}

/// The reply of a production URL.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    body: Vec<u8>,
    /// n8n knows no such URL: nothing was started.
    unregistered: bool,
}

impl ProductionUrls {
    pub(crate) fn new(http: Client, credentials: Secret) -> Self {
        Self { http, credentials }
    }

    /// The credentials of those URLs that ask for one.
    ///
    /// # Errors
    /// When what is configured cannot be read.
    pub(crate) fn credentials(&self) -> Result<WebhookCredentials, ToolError> {
        WebhookCredentials::read(&self.credentials)
    }

    /// Sends the request; the reply may take up to `within`. The answer is an error where it is
    /// certain that nothing was started.
    ///
    /// # Errors
    /// When the credentials cannot be read; nothing was sent.
    pub(crate) fn send(
        &self,
        request: UrlRequest,
        workflow: Id,
        request_id: String,
        within: Duration,
    ) -> Result<Pending<UrlAnswer>, ToolError> {
        let (http, credentials) = (self.http.clone(), self.credentials()?);
        Ok(Pending::spawn(async move {
            let sent = exchange(
                &http,
                &workflow,
                &request,
                &credentials,
                &request_id,
                within,
            );
            settle(sent.await)
        }))
    }
}

/// Sends until n8n knows the URL, which may take a moment. Nothing else is sent twice.
async fn exchange(
    http: &Client,
    workflow: &Id,
    sent: &UrlRequest,
    credentials: &WebhookCredentials,
    request_id: &str,
    within: Duration,
) -> Result<Reply, HttpFailure> {
    let known_by = Instant::now() + ACTIVATION_TIMEOUT;
    loop {
        let request = http
            .request(sent.method.clone(), &sent.path)
            .query(&sent.query)
            .with(|request| request.header(REQUEST_ID, request_id))
            .with(|request| credentials.sign(request, sent.credential.as_deref()));
        let request = match &sent.body {
            None => request,
            Some(Body::Json(body)) => request.body(body),
            Some(Body::Form(fields)) => {
                let form = form(fields).map_err(|error| http.failure(error))?;
                request.with(|request| request.multipart(form))
            }
        };
        let response = request.timeout(within).send_any_status().await?;
        let (status, body) = (response.status, response.body);
        let unregistered = is_unregistered(workflow, sent, status, &body);
        if !unregistered || Instant::now() >= known_by {
            return Ok(Reply {
                status,
                body,
                unregistered,
            });
        }
        sleep(ACTIVATION_INTERVAL).await;
    }
}

/// The form as a browser sends it.
fn form(fields: &[(String, FormValue)]) -> Result<Form, Fault> {
    // What would end the name of a file, or its header: as browsers write it.
    let legal = |name: &str| {
        let name = name.replace('"', "%22");
        name.replace('\r', "%0D").replace('\n', "%0A")
    };
    fields.iter().try_fold(Form::new(), |form, (name, value)| {
        let part = match value {
            FormValue::Text(text) => Part::text(text.clone()),
            FormValue::File(file) => Part::bytes(file.content.clone())
                .file_name(legal(&file.name))
                .mime_str(&file.media_type)?,
        };
        Ok(form.part(name.clone(), part))
    })
}

/// True for what n8n itself says before a new activation has reached all of its parts: each of
/// these is said before anything is started. They name what was asked for, so that a workflow that
/// passes on somebody else's 404 is not taken for it.
fn is_unregistered(workflow: &Id, sent: &UrlRequest, status: StatusCode, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let [_, path @ ..] = sent.path.as_slice() else {
        return false;
    };
    if sent.way == Way::Form {
        return status == StatusCode::NOT_FOUND
            && body.windows(NO_FORM.len()).any(|at| at == NO_FORM);
    }
    let Ok(Refusal { message }) = serde_json::from_slice(body) else {
        return false;
    };
    let method = &sent.method;
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
    if sent.way == Way::Chat && status == StatusCode::NOT_FOUND && message.contains(half) {
        return true;
    }
    status == StatusCode::NOT_FOUND
        && [unknown, unpublished, just_now]
            .iter()
            .any(|said| message.contains(said))
}

/// Tells what may have started something from what has not.
fn settle(sent: Result<Reply, HttpFailure>) -> Result<UrlAnswer, ToolError> {
    match sent {
        Ok(reply) if reply.unregistered => Err(ToolError::conflict(
            "n8n does not know the production URL of this workflow, although it is active. \
             Deactivate and activate it in n8n; if its webhooks have an address of their own, set \
             N8N_WEBHOOK_URL.",
        )),
        Ok(reply) => Ok(UrlAnswer::Reply(reply)),
        Err(failure) => match failure.into_fault() {
            Fault::Unreachable(error) => Err(ToolError::unavailable(
                "n8n's webhooks cannot be reached; nothing was started. If they have an address of \
                 their own, set N8N_WEBHOOK_URL.",
            )
            .caused_by(error)),
            // One that is too large to read is a reply: the execution has the truth.
            Fault::Timeout(_) | Fault::TooLarge(_) => Ok(UrlAnswer::Late),
            _ => Ok(UrlAnswer::Lost),
        },
    }
}

impl Reply {
    /// Why the reply means that nothing has run, if it does. For runs that left no execution.
    pub(crate) fn refusal(&self) -> Option<ToolError> {
        let status = self.status.as_u16();
        let (kind, text) = match status {
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
        Some(ToolError::new(kind, text).caused_by(format!("HTTP {status}")))
    }

    /// The body, as a JSON string where it is not JSON.
    pub(crate) fn as_json(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&self.body);
            serde_json::value::to_raw_value(&text).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[test]
    fn only_our_own_url_counts_as_unregistered() {
        let sent = UrlRequest {
            way: Way::Webhook,
            method: Method::POST,
            path: vec!["webhook".into(), "a".into(), "b".into()],
            query: Vec::new(),
            body: None,
            replies_late: true,
            credential: None,
        };
        let workflow = Id::try_from("w1".to_owned()).unwrap();
        let registered = "This webhook is not registered for POST requests. Did you mean to make a";
        for (expected, status, message) in [
            (
                true,
                404,
                "The requested webhook \"POST a/b\" is not registered.",
            ),
            (
                true,
                404,
                "Published version not found for workflow with id \"w1\"",
            ),
            (true, 404, &format!("{registered} POST request?")),
            (
                false,
                200,
                "The requested webhook \"POST a/b\" is not registered.",
            ),
            (
                false,
                404,
                "The requested webhook \"POST other\" is not registered.",
            ),
            (
                false,
                404,
                "Active version not found for workflow with id \"w2\"",
            ),
            (false, 404, &format!("{registered} GET request?")),
        ] {
            let body = serde_json::json!({"code": 404, "message": message}).to_string();
            let status = StatusCode::from_u16(status).unwrap();
            let found = is_unregistered(&workflow, &sent, status, body.as_bytes());
            assert_eq!(found, expected, "{message}");
        }
        let page = StatusCode::NOT_FOUND;
        assert!(!is_unregistered(&workflow, &sent, page, b"<html>"));
    }

    #[tokio::test]
    async fn names_of_files_stay_in_their_header() {
        let file = File {
            name: "a\"\r\nb".into(),
            media_type: "text/csv".into(),
            content: vec![0xff],
        };
        let fields = [
            ("field-0".to_owned(), FormValue::Text("x".into())),
            ("field-1".to_owned(), FormValue::File(file)),
        ];
        let body = form(&fields).unwrap().into_stream();
        let body: Vec<_> = body.map(Result::unwrap).collect().await;
        let body = String::from_utf8_lossy(&body.concat()).into_owned();
        let expected = "name=\"field-1\"; filename=\"a%22%0D%0Ab\"\r\nContent-Type: text/csv\r\n";
        assert!(body.contains(expected), "{body}");
    }
}
