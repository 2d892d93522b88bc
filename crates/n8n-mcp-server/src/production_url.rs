//! Calls production URLs, which start runs, and reads their replies.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use n8n_workflow::Id;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use upstream::http::multipart::{Form, Part};
use upstream::http::{Client, Fault, HttpFailure, Method, StatusCode, whole_characters};
use upstream::text::truncate;

use crate::start_method::{StartMethod, WebhookCredentials};

/// The header with our request id. The trigger saves it, so that it identifies the execution.
pub(crate) const REQUEST_ID: &str = "x-mcp-request-id";
/// The longest time that n8n rejects a workflow after its activation, until all of n8n's parts have
/// registered it.
pub(crate) const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of retries until then.
pub(crate) const ACTIVATION_INTERVAL: Duration = Duration::from_millis(200);
/// The least time for a reply, also if n8n has registered the URL late.
const MIN_REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any usual one.
const MAX_CONTENT_TYPE_CHARS: usize = 100;
/// A text on n8n's page for a form that is not registered.
const NO_FORM: &[u8] = b"Problem loading form";

pub(crate) struct ProductionUrls {
    http: Client,
    credentials: Secret,
    /// All that were configured since the start: older executions hold earlier ones.
    secrets: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
pub(crate) struct UrlRequest {
    /// A webhook, a chat or a form.
    pub(crate) way: StartMethod,
    pub(crate) method: Method,
    /// All methods of the URL, of which n8n registers one after the other.
    pub(crate) methods: Vec<Method>,
    /// Segments below n8n's address.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    /// Valid as headers, and none that this server sets.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Body>,
    /// The reply comes at the end of the run and holds its result.
    pub(crate) replies_at_end: bool,
    /// Name of the credential to send.
    pub(crate) credential: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Body {
    Json(Value),
    /// A form (`multipart/form-data`).
    Form(Vec<FormPart>),
}

#[derive(Clone, Debug)]
pub(crate) struct FormPart {
    pub(crate) field: String,
    pub(crate) content: Vec<u8>,
    /// The name of a file, and its media type.
    pub(crate) file: Option<(String, String)>,
}

impl FormPart {
    pub(crate) fn text(field: impl Into<String>, text: String) -> Self {
        Self {
            field: field.into(),
            content: text.into(),
            file: None,
        }
    }
}

/// The outcome of a request that may have started a run.
pub(crate) enum UrlOutcome {
    Reply(UrlReply),
    /// No readable reply before the timeout. That is not a failure: the run continues.
    Late,
    /// The connection failed after the request was sent.
    Lost,
}

pub(crate) struct UrlReply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl ProductionUrls {
    pub(crate) fn new(http: Client, credentials: Secret) -> Self {
        Self {
            http,
            credentials,
            secrets: Mutex::default(),
        }
    }

    /// The address holds a user, who is sent with each request.
    pub(crate) fn has_user(&self) -> bool {
        let base = self.http.base();
        !base.username().is_empty() || base.password().is_some()
    }

    /// The secrets of the credentials, as they are configured now and were before.
    pub(crate) fn secrets(&self) -> BTreeSet<String> {
        let mut secrets = self.secrets.lock();
        if let Ok(current) = self.credentials() {
            secrets.extend(current.secrets().cloned());
        }
        secrets.clone()
    }

    /// The credentials for URLs that require one.
    pub(crate) fn credentials(&self) -> Result<WebhookCredentials, ToolError> {
        WebhookCredentials::read(&self.credentials)
    }

    /// Sends the request; the reply may take up to `within`, with the activation. The answer is an error only if it is
    /// certain that nothing was started.
    pub(crate) fn send(
        &self,
        request: UrlRequest,
        workflow: &Id,
        request_id: &str,
        within: Duration,
    ) -> Result<Pending<UrlOutcome>, ToolError> {
        let (http, credentials) = (self.http.clone(), self.credentials()?);
        let (workflow, request_id) = (workflow.clone(), request_id.to_owned());
        Ok(Pending::spawn(async move {
            let started = Instant::now();
            let retry_until = started + ACTIVATION_TIMEOUT.min(within);
            loop {
                let left = within.saturating_sub(started.elapsed());
                let left = left.max(MIN_REPLY_TIMEOUT);
                let sent = send_once(&http, &request, &credentials, &request_id, left);
                let reply = match sent.await {
                    Ok(reply) => reply,
                    Err(failure) => break classify(failure),
                };
                if !is_unregistered(&workflow, &request, &reply) {
                    break Ok(UrlOutcome::Reply(reply));
                }
                if Instant::now() >= retry_until {
                    break Err(ToolError::conflict(UNREGISTERED));
                }
                // Registering the URL takes a moment; nothing else is sent twice.
                sleep(ACTIVATION_INTERVAL).await;
            }
        }))
    }
}

async fn send_once(
    http: &Client,
    sent: &UrlRequest,
    credentials: &WebhookCredentials,
    request_id: &str,
    within: Duration,
) -> Result<UrlReply, HttpFailure> {
    let request = http
        .request(sent.method.clone(), &sent.path)
        .once()
        .query(&sent.query)
        .with(|request| {
            let given = sent.headers.iter();
            given.fold(request, |request, (name, value)| {
                request.header(name, value)
            })
        })
        .with(|request| request.header(REQUEST_ID, request_id))
        .with(|request| credentials.sign(request, sent.credential.as_deref()));
    let request = match &sent.body {
        None => request,
        Some(Body::Json(body)) => request.body(body),
        Some(Body::Form(parts)) => {
            let form = multipart(parts).map_err(|error| http.failure(error))?;
            request.with(|request| request.multipart(form))
        }
    };
    let response = request.timeout(within).send_any_status().await?;
    let content_type = response.headers.get("content-type");
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(UrlReply {
        status: response.status,
        content_type: content_type.map(|text| truncate(text, MAX_CONTENT_TYPE_CHARS)),
        body: response.body,
    })
}

/// True for n8n's own errors before an activation has reached all of its parts; n8n returns each of
/// them before it starts anything. They name the request, so that the 404 of another service which
/// the workflow forwards is not mistaken for one.
fn is_unregistered(workflow: &Id, sent: &UrlRequest, reply: &UrlReply) -> bool {
    if reply.status != StatusCode::NOT_FOUND {
        return false;
    }
    if sent.way == StartMethod::Form {
        return reply.body.windows(NO_FORM.len()).any(|at| at == NO_FORM);
    }
    let (Some(message), [_, path @ ..]) = (reply.message(), sent.path.as_slice()) else {
        return false;
    };
    let (method, path) = (&sent.method, path.join("/"));
    let unknown = format!("The requested webhook \"{method} {path}\" is not registered");
    let unpublished = format!("version not found for workflow with id \"{workflow}\"");
    // The URL has other methods so far, or, registered between two lookups of n8n, this one.
    let others = format!("not registered for {method} requests. Did you mean to make a ");
    let others = message.split_once(&others).map(|(_, others)| others);
    let others = others.and_then(|others| others.split_once(" request"));
    let is_own = |one: &str| one == "or" || sent.methods.iter().any(|own| own == one);
    message.contains(&unknown)
        || message.contains(&unpublished)
        || others.is_some_and(|(all, _)| {
            all.split([' ', ','])
                .all(|one| one.is_empty() || is_own(one))
        })
}

const UNREGISTERED: &str = "n8n does not know the production URL of this workflow, although it is active. \
    Another active workflow may have the same method and path (activate_workflow names it); if \
    n8n's webhooks have an address of their own, set N8N_WEBHOOK_URL.";

/// Separates failures that may have started a run from those that have not.
fn classify(failure: HttpFailure) -> Result<UrlOutcome, ToolError> {
    match failure.into_fault() {
        Fault::Unreachable(error) => Err(ToolError::unavailable(
            "n8n's webhooks cannot be reached; nothing was started. If they have an address of \
             their own, set N8N_WEBHOOK_URL.",
        )
        .caused_by(error)),
        // A reply that is too large is a reply: the execution has the result.
        Fault::Timeout(_) | Fault::TooLarge(_) => Ok(UrlOutcome::Late),
        _ => Ok(UrlOutcome::Lost),
    }
}

impl UrlReply {
    /// The error for a run without an execution whose reply may be the refusal of n8n or of a proxy, or just as well
    /// the answer of the workflow, or have taken its place.
    pub(crate) fn doubt(&self) -> Option<ToolError> {
        let status = self.status.as_u16();
        let other = match status {
            401 | 403 => {
                "its trigger refused the request: it asks for authentication (the credential in \
                 N8N_WEBHOOK_CREDENTIALS may be wrong), or it allows only certain addresses or origins, or no bots"
            }
            404 => {
                "there is no such URL: if n8n's webhooks have an address of their own, set N8N_WEBHOOK_URL"
            }
            429 | 502..=504 => "n8n or a proxy in front of it is busy or not ready",
            300..=399 => {
                "the URL itself redirects: then set N8N_WEBHOOK_URL to the address that it redirects to"
            }
            _ => return None,
        };
        Some(ToolError::upstream(format!(
            "The workflow's production URL answered with HTTP {status}, and n8n shows no execution of this run. It \
             may have run or not; it was not repeated. Either the workflow itself answers so, or {other}. Check the \
             executions in n8n, and what the workflow does, before you run it again."
        )))
    }

    /// The body. JSON has whole characters only.
    pub(crate) fn whole(&self) -> Cow<'_, [u8]> {
        match serde_json::from_slice::<IgnoredAny>(&self.body) {
            Ok(_) => whole_characters(&self.body),
            Err(_) => Cow::Borrowed(&self.body),
        }
    }

    /// The message in n8n's JSON.
    fn message(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Failure {
            message: String,
        }
        let failure = serde_json::from_slice::<Failure>(&self.whole()).ok();
        failure.map(|failure| failure.message)
    }

    /// The message of a run that failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.message().filter(|_| self.status.is_server_error())
    }

    /// True for an HTML page, which a proxy may have sent in n8n's place.
    pub(crate) fn is_page(&self) -> bool {
        let kind = self.content_type.as_deref();
        kind.is_some_and(|kind| kind.starts_with("text/html"))
    }

    /// The body, as a JSON string where it is not JSON.
    pub(crate) fn as_json(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.whole()).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&self.body);
            serde_json::value::to_raw_value(&text).unwrap_or_default()
        })
    }
}

fn multipart(parts: &[FormPart]) -> Result<Form, Fault> {
    // Escapes characters that would end a name or its header, as browsers do; n8n does not read names in
    // the form that reqwest's own escapes have (`name*=utf-8''…`).
    let escape = |name: &str| {
        let name = name.replace('"', "%22");
        name.replace('\r', "%0D").replace('\n', "%0A")
    };
    let form = Form::new().percent_encode_noop();
    parts.iter().try_fold(form, |form, part| {
        let mut content = Part::bytes(part.content.clone());
        if let Some((name, media_type)) = &part.file {
            content = content.file_name(escape(name)).mime_str(media_type)?;
        }
        Ok(form.part(escape(&part.field), content))
    })
}

/// A request in flight. Dropping it does not cancel the request, which ends at its timeout: closing
/// the connection would not stop the run that it has started.
pub(crate) struct Pending<T> {
    task: JoinHandle<Result<T, ToolError>>,
    answer: Option<T>,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn spawn(
        request: impl Future<Output = Result<T, ToolError>> + Send + 'static,
    ) -> Self {
        Self {
            task: tokio::spawn(request),
            answer: None,
        }
    }

    /// Waits for the answer or for `other`, or only for `other` if the answer has arrived before.
    pub(crate) async fn wait_or(
        &mut self,
        other: impl Future<Output = ()>,
    ) -> Result<(), ToolError> {
        if self.answer.is_some() {
            other.await;
            return Ok(());
        }
        tokio::select! {
            biased;
            answer = &mut self.task => {
                let answer = answer.map_err(|error| {
                    ToolError::upstream("The request to n8n was stopped before its \
                        end.").caused_by(error)
                })?;
                self.answer = Some(answer?);
            }
            () = other => {}
        }
        Ok(())
    }

    /// Waits for the answer, at most for `timeout`; no time if it has arrived before.
    pub(crate) async fn wait_at_most(&mut self, timeout: Duration) -> Result<(), ToolError> {
        if self.answer.is_some() {
            return Ok(());
        }
        self.wait_or(sleep(timeout)).await
    }

    pub(crate) fn answer(&self) -> Option<&T> {
        self.answer.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use upstream::redact::Redactor;

    use super::*;

    #[test]
    fn half_a_character_is_replaced_in_json_only() {
        let shown = |body: &str| {
            let body = body.as_bytes().to_vec();
            let (status, content_type) = (StatusCode::OK, None);
            let reply = UrlReply {
                status,
                content_type,
                body,
            };
            Redactor::new(true)
                .raw_json(reply.as_json())
                .get()
                .to_owned()
        };
        let hidden = "{\"password\":\"***\",\"x\":\"\u{fffd}\"}";
        assert_eq!(shown(r#"{"password":"hunter2","x":"\ud83d"}"#), hidden);
        assert_eq!(shown(r"C:\ud83d"), r#""C:\\ud83d""#);
    }

    #[test]
    fn secrets_are_those_of_the_file_and_earlier_ones() {
        let path = std::env::temp_dir().join(format!("n8n-mcp-secrets-{}", std::process::id()));
        let credentials = Secret::new(None, Some(path.clone()));
        let base = "http://u:p@127.0.0.1:9".parse().unwrap();
        let http = Client::new(base, &crate::api::N8N).unwrap();
        let urls = ProductionUrls::new(http, credentials);
        assert!(urls.has_user() && urls.secrets().is_empty());
        for (value, expected) in [("one", &["one"][..]), ("two", &["one", "two"])] {
            let known = serde_json::json!({"a": {"name": "X-Key", "value": value}});
            std::fs::write(&path, known.to_string()).unwrap();
            assert!(urls.secrets().iter().eq(expected));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(urls.secrets().len(), 2);
    }
}
