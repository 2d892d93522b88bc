//! HTTP servers in this process, and a fake service with scripted responses that records its requests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A server on a free port of loopback. Ends with the test.
pub(crate) struct HttpServer {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Starts it with this answer to each request. An error closes the connection.
    pub(crate) async fn start<F>(
        answer: impl Fn(hyper::Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<hyper::Response<Body>, &'static str>> + Send + 'static,
    {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let service = service_fn(answer.clone());
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, task }
    }

    /// A response with this status, content type and body.
    pub(crate) fn response(
        status: u16,
        kind: &str,
        body: impl Into<Bytes>,
    ) -> hyper::Response<Body> {
        let response = hyper::Response::builder().status(status);
        let body = Full::new(body.into()).boxed_unsync();
        response.header("content-type", kind).body(body).unwrap()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query as sent.
    pub(crate) target: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns true if the body contains `part`.
    pub(crate) fn has(&self, part: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(part)
    }
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) enum Response {
    /// Status, content type, body.
    Http(u16, &'static str, Bytes),
    /// No response.
    Hang,
    /// The end of the connection.
    Cut,
}

impl Response {
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::Http(status, "application/json", body.to_string().into())
    }

    pub(crate) fn html(status: u16) -> Self {
        Self::Http(
            status,
            "text/html",
            "<!DOCTYPE html><html><body>SECRET-BODY</body></html>".into(),
        )
    }
}

/// A running fake service. Ends with the test.
pub(crate) struct FakeService {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    _server: HttpServer,
}

impl FakeService {
    pub(crate) async fn start(
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let server = HttpServer::start(move |request| {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await;
                let request = Request {
                    method: head.method.to_string(),
                    target: head.uri.to_string(),
                    headers: head.headers,
                    body: body.map_or_else(|_| Bytes::new(), |body| body.to_bytes()),
                };
                seen.lock().unwrap().push(request.clone());
                match answer(&request) {
                    Response::Http(status, kind, body) => {
                        Ok(HttpServer::response(status, kind, body))
                    }
                    Response::Hang => std::future::pending().await,
                    Response::Cut => Err("cut"),
                }
            }
        })
        .await;
        Self {
            url: server.url.clone(),
            requests,
            _server: server,
        }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}
