//! The page for people: `GET /` for browsers, and the requests that it sends to `/page/…`.
//!
//! A page has no door of its own to the server: its requests have the bearer token of the person, as those to `/mcp` do,
//! `POST /page/mcp` is `POST /mcp`, and what the service shows beside it is decided by the service. `assets` has the
//! files, without anything of the server.

use std::sync::Arc;
use std::time::Duration;

use assets::ASSETS;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use mcp_core::clock::unix_time;
use mcp_core::error::{Credentials, Error};
use mcp_core::server::FrameReply;
use mcp_hosts::{Folders, Format, HOSTS, Host, Launch, System, Token, file_with};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::PageData;
use crate::config::SetOption;
use crate::http::app::App;
use crate::http::events::{InFlightCall, MessageSender};
use crate::http::headers::check_unambiguous;
use crate::http::reply::{self, Refusal, failure};
use crate::http::request::{HttpRequest, read_small_body};

mod assets;

/// The folder of everything but the page itself.
const FOLDER: &str = "/page/";

/// Sent by browsers only, and not by scripts (Fetch Metadata Request Headers).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Interval in which the page hears of changes at most.
const CHANGE_INTERVAL: Duration = Duration::from_millis(500);

/// No inline code, no other origin, no frame, and no text that becomes code (Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// The headers of every response.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// The topic with the configuration of the service.
const SETTINGS: &str = "settings";

/// The page of a server.
pub(crate) struct Page {
    /// Content of the service beside its tools.
    pub(crate) data: Option<Arc<dyn PageData>>,
    /// The options of the server that are set.
    pub(crate) options: Vec<SetOption>,
}

impl Page {
    /// True for a request of a browser for the page, and for the paths that only it uses.
    pub(super) fn is_asked(request: &Request) -> bool {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/" => is_read && accepts_html(request.headers()),
            path => path.starts_with(FOLDER),
        }
    }

    /// Answers a request. No page of another origin may read the response.
    pub(super) async fn answer(&self, app: &App, request: Request) -> Response {
        protect(self.answer_request(app, HttpRequest::new(request)).await)
    }

    async fn answer_request(&self, app: &App, mut request: HttpRequest) -> Response {
        match self.admit(app, &mut request).await {
            Err(refusal) => app.refuse_unread(request, refusal),
            Ok(()) => match request.method {
                Method::GET | Method::HEAD => ASSETS.get(request.uri.path(), &request.headers),
                Method::POST => self.post(app, request).await,
                _ => failure(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST"),
            },
        }
    }

    /// Checks the host of a request. Of one that may do something it also checks that the page itself sends it, the token
    /// of the person and the limit. It is counted as a call or as another request of the page.
    async fn admit(&self, app: &App, request: &mut HttpRequest) -> Result<(), Refusal> {
        app.check_host(request)?;
        check_unambiguous(&request.headers)?;
        if request.method != Method::POST {
            return Ok(());
        }
        check_from_page(&request.headers)?;
        let path = path(&request.uri);
        let view = path.strip_prefix("mcp/");
        let unauthorized = |reason| Refusal::Other(StatusCode::UNAUTHORIZED, reason);
        let checked = app
            .guard
            .check_token(&request.headers, view, &request.connection);
        request.credential = checked.await.map_err(|error| match error {
            Error::Unauthorized(Credentials::Missing) => unauthorized("sign in with a token"),
            Error::Unauthorized(_) => unauthorized("this token is not valid here"),
            error => error.into(),
        })?;
        app.check_page(request, path == "mcp" || view.is_some())?;
        if let Some(name) = view {
            let principal = request.principal().map(|principal| &**principal);
            let view = app.server.view(principal, name);
            let missing = Refusal::Other(StatusCode::NOT_FOUND, "there is no such view");
            request.view = Some(view.ok_or(missing)?);
        }
        Ok(())
    }

    async fn post(&self, app: &App, mut request: HttpRequest) -> Response {
        if path(&request.uri) == "mcp" || request.view.is_some() {
            return app.post(request).await;
        }
        let read = match read_small_body(&mut request, app.limits).await {
            Ok(read) => read,
            Err(refusal) => return app.refuse_unread(request, refusal),
        };
        match path(&request.uri) {
            "me" => self.me(app, &request),
            "hosts" => match serde_json::from_slice(&read) {
                Ok(address) => {
                    let entries = HOSTS.iter().map(|host| entry(host, &address));
                    reply::json(StatusCode::OK, entries.collect::<Value>().to_string())
                }
                Err(error) => failure(StatusCode::BAD_REQUEST, &error.to_string()),
            },
            path => self.of_service(app, path, &request, &read).await,
        }
    }

    /// The server, and the person who looks at it.
    fn me(&self, app: &App, request: &HttpRequest) -> Response {
        let server = app.server.identity();
        let principal = request.principal().map(|principal| &**principal);
        let views = app.server.views(principal);
        let views: Vec<&str> = views.iter().map(|name| &**name).collect();
        let me = json!({
            "server": {"name": server.name, "version": server.version, "description": server.description},
            "principal": principal.map(|principal| &*principal.name),
            "needs_token": app.guard.needs_token(),
            "views": views,
            "has_data": self.data.is_some(),
            "degraded": app.server.degraded().map(|reason| reason.to_string()),
            // Beside a gateway the event log tells of them, to those who may see it.
            "clients": match self.data {
                Some(_) => Vec::new(),
                None => app.server.clients().iter().map(|client| client.as_str().to_owned()).collect(),
            },
        });
        reply::json(StatusCode::OK, me.to_string())
    }

    async fn of_service(
        &self,
        app: &App,
        path: &str,
        request: &HttpRequest,
        body: &[u8],
    ) -> Response {
        let Some(data) = &self.data else {
            return failure(
                StatusCode::NOT_FOUND,
                "this server has nothing but its tools",
            );
        };
        let caller = request.principal();
        if path == "live" {
            return self.live(data, app, request);
        }
        let Some(topic) = path.strip_prefix("data/") else {
            return failure(StatusCode::NOT_FOUND, "there is no such path");
        };
        let Some(_permit) = app.permit() else {
            return reply::busy();
        };
        let (status, mut json) = data.answer(topic, caller, body).await;
        if topic == SETTINGS
            && status == 200
            && let Ok(mut settings) = serde_json::from_str::<Value>(&json)
        {
            // Beside the configuration of the service, for a caller who may see that.
            settings["server"] = json!(self.options);
            json = settings.to_string();
        }
        reply::json(StatusCode::from_u16(status).unwrap_or_default(), json)
    }

    /// A stream that says when something has changed, until the token ends or the server closes.
    fn live(&self, data: &Arc<dyn PageData>, app: &App, request: &HttpRequest) -> Response {
        let slot = match app.stream_slot(request) {
            Ok(slot) => slot,
            Err(refused) => return *refused,
        };
        let (sender, messages) = MessageSender::new();
        let gone = CancellationToken::new();
        let (data, left) = (Arc::clone(data), gone.clone());
        let server = Arc::clone(&app.server);
        let caller = request.principal().cloned();
        let expires = request.credential.as_ref();
        let expires = expires.and_then(|credential| credential.expires());
        let remaining = expires.map_or(Duration::MAX, |expires| {
            Duration::from_secs(expires).saturating_sub(unix_time())
        });
        let changes = async move {
            // A number of this stream, which says nothing about what others do; larger than those of earlier streams.
            let mut events = unix_time().as_millis();
            let mut last = None;
            loop {
                let now = data.revision(caller.as_ref());
                if last.replace(now) != Some(now) {
                    events += 1;
                    let line = json!({"events": events as u64, "lists": now.1}).to_string();
                    sender.send(line.into_bytes()).await;
                }
                tokio::time::sleep(CHANGE_INTERVAL).await;
            }
        };
        let watch = async move {
            tokio::select! {
                () = changes => {}
                () = left.cancelled() => {}
                () = server.closed() => {}
                () = tokio::time::sleep(remaining) => {}
            }
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, Some(messages), Some(Arc::new(gone)));
        app.idle_stream(call.into_events(None), request, slot)
    }
}

/// The path of a request of the page, in its folder.
fn path(uri: &Uri) -> &str {
    let path = uri.path().strip_prefix(FOLDER);
    path.unwrap_or_default()
}

/// Adds the headers of every response of the page.
fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Checks that the page itself sends a request: no other page, of another port of this host either.
fn check_from_page(headers: &HeaderMap) -> Result<(), Refusal> {
    let reason = match headers.get(FETCH_SITE) {
        Some(site) if site == "same-origin" => return Ok(()),
        // Not sent to addresses that are neither local nor HTTPS.
        None => "open the page in a browser, at localhost or by HTTPS",
        Some(_) => "only the page itself may send this",
    };
    Err(Refusal::Other(StatusCode::FORBIDDEN, reason))
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get(http::header::ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    accepted.is_some_and(|value| value.contains("text/html"))
}

/// The program that serves hosts which cannot call a URL themselves.
const BRIDGE: &str = "mcp-gateway";

const TOKEN: &str = "MCP_TOKEN";

/// The address of a server as the page sees it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    /// The name of the entry.
    name: String,
    url: String,
    needs_token: bool,
}

fn entry(host: &Host, address: &Address) -> Value {
    let token = address
        .needs_token
        .then(|| Token::Variable(TOKEN.to_owned()));
    let launch = Launch::Url {
        url: address.url.clone(),
        token,
        bridge: Some(BRIDGE.to_owned()),
    };
    let file = host.path(&Folders::shown(System::Linux), false);
    let mut shown = json!({
        "id": host.id,
        "name": host.name,
        "client": host.client,
        "file": file.map(|file| file.display().to_string()),
        "after": host.after,
    });
    match mcp_hosts::entry(host, &address.name, &launch) {
        Ok((entry, warnings)) => {
            shown["text"] = match host.format {
                Format::Node => format!("{entry:#}").into(),
                _ => file_with(host, &address.name, &entry).map_or(Value::Null, Value::from),
            };
            shown["entry"] = entry;
            shown["notes"] = json!(warnings);
        }
        Err(reason) => shown["notes"] = json!([reason]),
    }
    shown
}

#[cfg(test)]
mod tests;
