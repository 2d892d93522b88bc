//! An HTTP proxy in front of n8n's API that records the requests.

use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::http_client;

/// The probe of the service, and the search for workflows that are tools.
fn is_background_request(sent: &str) -> bool {
    ["GET /api/v1/workflows?limit=1", "GET /api/v1/discover"].contains(&sent)
        || sent.starts_with("GET /api/v1/workflows?tags=mcp&")
}

pub(super) struct CountingProxy {
    /// `http://127.0.0.1:PORT`.
    pub(super) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl CountingProxy {
    /// Starts a proxy for the service at this URL.
    pub(super) async fn start(target: &str) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, target) = (Arc::clone(&requests), target.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let (seen, target) = (Arc::clone(&seen), target.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let sent = format!("{} {}", request.method(), request.uri());
                    seen.lock().unwrap().push(sent);
                    forward(target.clone(), request)
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            url,
            requests,
            task,
        }
    }

    /// The methods and targets of the requests since the last call, without those of the background.
    pub(super) fn take(&self) -> Vec<String> {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.retain(|sent| !is_background_request(sent));
        requests
    }
}

impl Drop for CountingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An error closes the connection without an answer.
async fn forward(
    target: String,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no body")?.to_bytes();
    let mut sent = http_client().request(head.method, format!("{target}{}", head.uri));
    for (name, value) in &head.headers {
        if !["host", "content-length", "connection"].contains(&name.as_str()) {
            sent = sent.header(name, value);
        }
    }
    let reply = sent.body(body).send().await.map_err(|_| "no service")?;
    let mut response = Response::builder().status(reply.status());
    if let Some(kind) = reply.headers().get("content-type") {
        response = response.header("content-type", kind);
    }
    let body = reply.bytes().await.map_err(|_| "no answer")?;
    Ok(response.body(Full::new(body)).unwrap())
}
