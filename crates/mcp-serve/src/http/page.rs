//! The page for people: `GET /` for browsers, and the requests that it sends to `/page/…`.
//!
//! A page has no door of its own to the server: `POST /page/mcp` is `POST /mcp` with the credential of the sign-in
//! (`session`) in place of a token, and what the service shows beside it is decided by the service. `assets` has the
//! files, without anything of the server.

mod assets;
mod link;
mod session;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use mcp_core::error::Error;
use mcp_core::server::FrameReply;
use mcp_core::sign::Signer;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::body;
use super::events::{EventStream, InFlightCall, MessageSender};
use super::guard::Guard;
use super::headers::Head;
use super::mcp::{Authenticated, McpEndpoint, ViewOwner};
use super::reply::{self, Reply};
use crate::clock::unix_time;
use crate::config::SetOption;
use crate::page_data::PageContent;
use crate::{PageCaller, PageData};
use assets::ASSETS;
use session::{PageSessions, SignIn, SignedIn};

/// The folder of everything but the page itself.
const FOLDER: &str = "/page/";

/// Sent by browsers only, and not by scripts (Fetch Metadata Request Headers).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The key of the sign-in, which the page keeps. Cookies are shared by all ports of a host, this is not; and another
/// origin cannot send the header without a preflight request.
const KEY: HeaderName = HeaderName::from_static("x-page-key");

/// Bytes of the body of a request that is not for `mcp`: a token of an OAuth issuer may have some thousand.
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
    sessions: PageSessions,
    /// Content of the service beside its tools.
    data: Option<Arc<dyn PageData>>,
    /// The options of the server that are set.
    options: Vec<SetOption>,
}

/// A request to the page whose host was checked.
pub(super) struct PageRequest<'a, B> {
    pub(super) head: Parts,
    pub(super) body: &'a mut B,
    pub(super) peer: IpAddr,
}

impl Page {
    /// The page of the server with this `name`, at this `url`, which ends with a slash; `None` if no browser can open it
    /// there.
    pub(super) fn new(
        name: &str,
        url: Option<String>,
        signer: Signer,
        PageContent { data, options }: PageContent,
    ) -> Self {
        Self {
            sessions: PageSessions::new(name, url, signer),
            data,
            options,
        }
    }

    /// Prints where the page is: with a one-time link if no token is required.
    pub(super) fn announce(&self, guard: &Guard) {
        self.sessions.announce(guard);
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
        let PageRequest { head, body, peer } = request;
        let response = match head.method {
            Method::GET | Method::HEAD => ASSETS.get(head.uri.path(), &head.headers),
            Method::POST => {
                return match is_from_page(&head.headers) {
                    Err(reason) => {
                        let refused = failure(StatusCode::FORBIDDEN, reason);
                        reply::before_body(refused, &head.headers, body)
                    }
                    Ok(()) => self.post(guard, mcp, head, body, peer, limit_rate).await,
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
        peer: IpAddr,
        limit_rate: impl Fn(&Authenticated, bool) -> Result<(), Error>,
    ) -> Response<Reply> {
        let path = head.uri.path().strip_prefix(FOLDER);
        let path = path.unwrap_or_default().to_owned();
        let is_sign_in = matches!(&*path, "sign-in" | "new-link");
        let signed_in = match is_sign_in {
            true => None,
            false => self.sessions.open(guard, &head).await,
        };
        if signed_in.is_none() && !is_sign_in {
            let refused = failure(StatusCode::UNAUTHORIZED, "sign in first");
            return reply::before_body(refused, &head.headers, body);
        }
        let mut client = Authenticated {
            credential: signed_in.as_ref().and_then(|it| it.credential.clone()),
            address: peer,
            headers: Head::read(&head.headers).facts(),
            view: None,
        };
        let is_call = path == "mcp" || path.starts_with("mcp/");
        if let Err(error) = limit_rate(&client, is_call) {
            let refused = mcp.refuse(&head.headers, &error, None);
            return reply::before_body(refused, &head.headers, body);
        }
        if let Some(name) = path.strip_prefix("mcp/") {
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
        match (&*path, signed_in) {
            ("sign-in", _) => self.sign_in(guard, &head, &read).await,
            ("new-link", _) => match self.sessions.new_link(guard) {
                true => reply::json(StatusCode::OK, r#"{"printed":true}"#),
                false => failure(
                    StatusCode::TOO_MANY_REQUESTS,
                    "one link in 10 s, and none where a token is needed",
                ),
            },
            ("sign-out", signed_in) => {
                if let Some(signed_in) = &signed_in {
                    self.sessions.end_link(signed_in);
                }
                let gone = self.sessions.cookie(&head, "", 0);
                with_cookie(reply::json(StatusCode::OK, "{}"), gone)
            }
            ("me", Some(signed_in)) => {
                let server = mcp.server().identity();
                let principal = client.principal().map(|principal| &**principal);
                let views = mcp.server().views(principal);
                let views: Vec<&str> = views.iter().map(|name| &**name).collect();
                let me = json!({
                    "server": {"name": server.name, "version": server.version, "description": server.description},
                    "principal": client.principal().map(|principal| &*principal.name),
                    "is_operator": signed_in.is_operator,
                    "expires": signed_in.expires,
                    "needs_token": guard.needs_token(),
                    "views": views,
                    "has_data": self.data.is_some(),
                    "degraded": mcp.server().degraded().map(|reason| reason.to_string()),
                });
                reply::json(StatusCode::OK, me.to_string())
            }
            (path, Some(signed_in)) => self.of_service(mcp, path, &client, signed_in, &read).await,
            (_, None) => failure(StatusCode::NOT_FOUND, "there is no such path"),
        }
    }

    async fn sign_in(&self, guard: &Guard, head: &Parts, body: &[u8]) -> Response<Reply> {
        let Ok(given) = serde_json::from_slice::<SignIn>(body) else {
            return failure(
                StatusCode::BAD_REQUEST,
                r#"needs {"token": …} or {"link": …}"#,
            );
        };
        match self.sessions.sign_in(guard, head, given).await {
            Ok((cookie, answer)) => with_cookie(reply::json(StatusCode::OK, answer), cookie),
            Err(reason) => failure(StatusCode::UNAUTHORIZED, reason),
        }
    }

    async fn of_service(
        &self,
        mcp: &McpEndpoint,
        path: &str,
        client: &Authenticated,
        signed_in: SignedIn,
        body: &[u8],
    ) -> Response<Reply> {
        let Some(data) = &self.data else {
            return failure(
                StatusCode::NOT_FOUND,
                "this server has nothing but its tools",
            );
        };
        let caller = PageCaller {
            principal: client.principal().cloned(),
            is_operator: signed_in.is_operator,
        };
        if path == "live" {
            return self.live(data, mcp, client, caller, signed_in.remaining());
        }
        let Some(topic) = path.strip_prefix("data/") else {
            return failure(StatusCode::NOT_FOUND, "there is no such path");
        };
        let Some(_permit) = mcp.permit() else {
            return reply::busy();
        };
        let (status, mut json) = data.answer(topic, &caller, body).await;
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

    /// A stream that says when something has changed, until the sign-in ends or the server closes.
    fn live(
        &self,
        data: &Arc<dyn PageData>,
        mcp: &McpEndpoint,
        client: &Authenticated,
        caller: PageCaller,
        remaining: Duration,
    ) -> Response<Reply> {
        let Some(slot) = mcp.stream_slot(client) else {
            return reply::too_many_streams(mcp.limits().max_streams_per_client);
        };
        let (sender, messages) = MessageSender::new();
        let gone = CancellationToken::new();
        let (data, left, closed) = (Arc::clone(data), gone.clone(), mcp.closed());
        let changes = async move {
            // A number of this stream, which says nothing about what others do; larger than those of earlier streams.
            let mut events = unix_time().as_millis();
            let mut last = None;
            loop {
                let now = data.revision(&caller);
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
        Some(site) if site == "same-origin" => {}
        // Not sent to addresses that are neither local nor HTTPS.
        None => return Err("open the page in a browser, at localhost or by HTTPS"),
        Some(_) => return Err("only the page itself may send this"),
    }
    match headers.contains_key(KEY) {
        true => Ok(()),
        false => Err("the header X-Page-Key is missing"),
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

fn with_cookie(mut response: Response<Reply>, cookie: Option<HeaderValue>) -> Response<Reply> {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The host of a request, as its client knows it.
fn host(head: &Parts) -> &str {
    let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    named.or(authority).unwrap_or_default()
}

#[cfg(test)]
mod tests;
