//! A fake service with scripted responses on a free port of loopback. It records its requests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query as sent.
    pub(crate) target: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) enum Response {
    /// Status, content type, body.
    Http(u16, &'static str, Bytes),
    /// No response.
    Hang,
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
    task: JoinHandle<()>,
}

impl FakeService {
    pub(crate) async fn start(
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
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
                                let response = hyper::Response::builder()
                                    .status(status)
                                    .header("content-type", kind);
                                Ok::<_, Infallible>(response.body(Full::new(body)).unwrap())
                            }
                            Response::Hang => std::future::pending().await,
                        }
                    }
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

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        self.task.abort();
    }
}
