//! An HTTP proxy in front of n8n's API that records the requests.

use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::harness::{Body, HttpServer, http_client, wait_until};

/// The probe of the service, and the search for workflows that are tools.
fn is_background_request(sent: &str) -> bool {
    ["GET /api/v1/workflows?limit=1", "GET /api/v1/discover"].contains(&sent)
        || sent.starts_with("GET /api/v1/workflows?tags=mcp&")
}

pub(super) struct CountingProxy {
    /// `http://127.0.0.1:PORT`.
    pub(super) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _server: HttpServer,
}

impl CountingProxy {
    /// Starts a proxy for the service at this URL.
    pub(super) async fn start(target: &str) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, target) = (Arc::clone(&requests), target.to_owned());
        let server = HttpServer::start(move |request: Request<Incoming>| {
            let sent = format!("{} {}", request.method(), request.uri());
            seen.lock().unwrap().push(sent);
            forward(target.clone(), request)
        })
        .await;
        Self {
            url: server.url.clone(),
            requests,
            _server: server,
        }
    }

    /// The methods and targets of the requests since the last call, without those of the background.
    pub(super) fn take(&self) -> Vec<String> {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.retain(|sent| !is_background_request(sent));
        requests
    }

    /// Waits until this request has come so often.
    pub(super) async fn wait_for(&self, sent: &str, times: usize) {
        wait_until(sent, async || {
            let requests = self.requests.lock().unwrap();
            requests.iter().filter(|one| *one == sent).count() >= times
        })
        .await;
    }
}

/// An error closes the connection without an answer.
async fn forward(
    target: String,
    request: Request<Incoming>,
) -> Result<Response<Body>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no body")?.to_bytes();
    let mut sent = http_client().request(head.method, format!("{target}{}", head.uri));
    for (name, value) in &head.headers {
        if !["host", "content-length", "connection"].contains(&name.as_str()) {
            sent = sent.header(name, value);
        }
    }
    let reply = sent.body(body).send().await.map_err(|_| "no service")?;
    let kind = reply.headers().get("content-type");
    let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_owned();
    let status = reply.status().as_u16();
    let body = reply.bytes().await.map_err(|_| "no answer")?;
    Ok(HttpServer::response(status, &kind, body))
}
