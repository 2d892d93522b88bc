//! The page for people: `GET /` for browsers, and the requests that it sends to `/page/…`.
//!
//! A page has no door of its own to the server: its requests have the bearer token of the person, as those to `/mcp` do,
//! `POST /page/mcp` is `POST /mcp`, and what the service shows beside it is decided by the service. `assets` has the
//! files, without anything of the server.

mod assets;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use mcp_core::error::{Credentials, Error};
use mcp_core::server::{FrameReply, Principal};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::body;
use super::connection::ClientConnection;
use super::events::{EventStream, InFlightCall, MessageSender};
use super::guard::Guard;
use super::headers::Head;
use super::mcp::{Authenticated, McpEndpoint, ViewOwner};
use super::reply::{self, Reply};
use crate::PageData;
use crate::clock::unix_time;
use crate::config::SetOption;
use crate::page_data::PageContent;
use assets::ASSETS;

/// The folder of everything but the page itself.
const FOLDER: &str = "/page/";

/// Sent by browsers only, and not by scripts (Fetch Metadata Request Headers).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Bytes of the body of a request that is not for `mcp`.
const MAX_BODY_BYTES: usize = 32 * 1024;

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
pub(super) struct Page {
    /// Content of the service beside its tools.
    data: Option<Arc<dyn PageData>>,
    /// The options of the server that are set.
    options: Vec<SetOption>,
}

/// A request to the page whose host was checked.
pub(super) struct PageRequest<'a, B> {
    pub(super) head: Parts,
    pub(super) body: &'a mut B,
    pub(super) connection: &'a ClientConnection,
}

impl Page {
    pub(super) fn new(PageContent { data, options }: PageContent) -> Self {
        Self { data, options }
    }

    /// True for a request of a browser for the page, and for the paths that only it uses.
    pub(super) fn is_asked(head: &Parts) -> bool {
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        match head.uri.path() {
            "/" => is_read && accepts_html(&head.headers),
            path => path.starts_with(FOLDER),
        }
    }

    /// Answers a request whose host and origin are admitted. `limit_rate` counts it against
    /// the limit of its client, as a call or as another request of the page.
    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(
        &self,
        guard: &Guard,
        mcp: &McpEndpoint,
        request: PageRequest<'_, B>,
        limit_rate: impl Fn(&Authenticated, bool) -> Result<(), Error>,
    ) -> Response<Reply> {
        let PageRequest {
            head,
            body,
            connection,
        } = request;
        let response = match head.method {
            Method::GET | Method::HEAD => ASSETS.get(head.uri.path(), &head.headers),
            Method::POST => {
                return match is_from_page(&head.headers) {
                    Err(reason) => {
                        let refused = failure(StatusCode::FORBIDDEN, reason);
                        reply::before_body(refused, &head.headers, body)
                    }
                    Ok(()) => {
                        self.post(guard, mcp, head, body, connection, limit_rate)
                            .await
                    }
                };
            }
            _ => failure(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST"),
        };
        reply::before_body(response, &head.headers, body)
    }

    async fn post<B: Body<Data = Bytes> + Unpin>(
        &self,
        guard: &Guard,
        mcp: &McpEndpoint,
        mut head: Parts,
        body: &mut B,
        connection: &ClientConnection,
        limit_rate: impl Fn(&Authenticated, bool) -> Result<(), Error>,
    ) -> Response<Reply> {
        let path = head.uri.path().strip_prefix(FOLDER);
        let path = path.unwrap_or_default().to_owned();
        let view = path.strip_prefix("mcp/");
        let fields = Head::read(&head.headers);
        let credential = match guard.check_token(&fields, view, connection).await {
            Ok(credential) => credential,
            Err(error) => {
                let refused = match error {
                    Error::Unauthorized(Credentials::Missing) => {
                        failure(StatusCode::UNAUTHORIZED, "sign in with a token")
                    }
                    Error::Unauthorized(_) => {
                        failure(StatusCode::UNAUTHORIZED, "this token is not valid here")
                    }
                    error => mcp.refuse(&head.headers, &error, None),
                };
                return reply::before_body(refused, &head.headers, body);
            }
        };
        let mut client = Authenticated {
            credential,
            address: connection.address,
            headers: fields.facts(),
            view: None,
        };
        let is_call = path == "mcp" || path.starts_with("mcp/");
        if let Err(error) = limit_rate(&client, is_call) {
            let refused = mcp.refuse(&head.headers, &error, None);
            return reply::before_body(refused, &head.headers, body);
        }
        if let Some(name) = view {
            let principal = client.principal().map(|principal| &**principal);
            let view = mcp.server().view(principal, name);
            client.view = view.map(|name| ViewOwner::new(name, principal));
            if client.view.is_none() {
                let refused = failure(StatusCode::NOT_FOUND, "there is no such view");
                return reply::before_body(refused, &head.headers, body);
            }
        }
        if is_call {
            let headers = std::mem::take(&mut head.headers);
            return mcp.post(headers, body, client).await;
        }
        let mut limits = *mcp.limits();
        limits.max_body_bytes = limits.max_body_bytes.min(MAX_BODY_BYTES);
        let Ok(read) = body::read(&mut *body, &limits).await else {
            let refused = failure(StatusCode::BAD_REQUEST, "the body cannot be read");
            return reply::before_body(refused, &head.headers, body);
        };
        match &*path {
            "me" => self.me(guard, mcp, &client),
            path => self.of_service(mcp, path, &client, &read).await,
        }
    }

    /// The server, and the person who looks at it.
    fn me(&self, guard: &Guard, mcp: &McpEndpoint, client: &Authenticated) -> Response<Reply> {
        let server = mcp.server().identity();
        let principal = client.principal().map(|principal| &**principal);
        let views = mcp.server().views(principal);
        let views: Vec<&str> = views.iter().map(|name| &**name).collect();
        let me = json!({
            "server": {"name": server.name, "version": server.version, "description": server.description},
            "principal": principal.map(|principal| &*principal.name),
            "needs_token": guard.needs_token(),
            "views": views,
            "has_data": self.data.is_some(),
            "degraded": mcp.server().degraded().map(|reason| reason.to_string()),
        });
        reply::json(StatusCode::OK, me.to_string())
    }

    async fn of_service(
        &self,
        mcp: &McpEndpoint,
        path: &str,
        client: &Authenticated,
        body: &[u8],
    ) -> Response<Reply> {
        let Some(data) = &self.data else {
            return failure(
                StatusCode::NOT_FOUND,
                "this server has nothing but its tools",
            );
        };
        let caller = client.principal();
        if path == "live" {
            return self.live(data, mcp, client);
        }
        let Some(topic) = path.strip_prefix("data/") else {
            return failure(StatusCode::NOT_FOUND, "there is no such path");
        };
        let Some(_permit) = mcp.permit() else {
            return reply::busy();
        };
        let (status, mut json) = data.answer(topic, caller, body).await;
        if topic == SETTINGS && status == 200 {
            json = self.with_options(json);
        }
        reply::json(StatusCode::from_u16(status).unwrap_or_default(), json)
    }

    /// Adds the options of the server to the configuration of its service, for a caller who may see that.
    fn with_options(&self, json: String) -> String {
        let Ok(mut settings) = serde_json::from_str::<Value>(&json) else {
            return json;
        };
        settings["server"] = json!(self.options);
        settings.to_string()
    }

    /// A stream that says when something has changed, until the token ends or the server closes.
    fn live(
        &self,
        data: &Arc<dyn PageData>,
        mcp: &McpEndpoint,
        client: &Authenticated,
    ) -> Response<Reply> {
        let Some(slot) = mcp.stream_slot(client) else {
            return reply::too_many_streams(mcp.limits().max_streams_per_client);
        };
        let (sender, messages) = MessageSender::new();
        let gone = CancellationToken::new();
        let (data, left, closed) = (Arc::clone(data), gone.clone(), mcp.closed());
        let caller: Option<Arc<Principal>> = client.principal().cloned();
        let expires = client.credential.as_ref();
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
                () = closed => {}
                () = tokio::time::sleep(remaining) => {}
            }
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, Some(Arc::new(gone)));
        let (interval, revocation) = (mcp.limits().keep_alive_interval, client.revocation());
        let events = EventStream::new(None, messages, call, interval, revocation);
        reply::idle_stream(events.in_slot(slot))
    }
}

/// Adds the headers of every response of the page.
pub(super) fn protect(mut response: Response<Reply>) -> Response<Reply> {
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
fn is_from_page(headers: &HeaderMap) -> Result<(), &'static str> {
    match headers.get(FETCH_SITE) {
        Some(site) if site == "same-origin" => Ok(()),
        // Not sent to addresses that are neither local nor HTTPS.
        None => Err("open the page in a browser, at localhost or by HTTPS"),
        Some(_) => Err("only the page itself may send this"),
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get(http::header::ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    accepted.is_some_and(|value| value.contains("text/html"))
}

fn failure(status: StatusCode, reason: &str) -> Response<Reply> {
    reply::json(status, json!({"error": reason}).to_string())
}

#[cfg(test)]
mod tests;
