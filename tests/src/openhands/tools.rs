//! Tools of tests: a command that ends when the test says so, and a proxy between our server and the agent server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::sync::watch;
use uuid::Uuid;

use crate::harness::real::OpenHands;
use crate::harness::{Body, HttpServer, http_client};

/// A file that the command waits for. The agent server is on this machine.
pub(super) struct Gate(PathBuf);

impl Gate {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("gate-{}", Uuid::new_v4())))
    }

    /// A shell command that ends once the gate is open.
    pub(super) fn pass(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.1; done", self.0.display())
    }

    pub(super) fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Gate {
    /// Opens the gate, so that no task runs long after its test: its file stays for the command to find.
    fn drop(&mut self) {
        self.open();
    }
}

/// A running proxy. Ends with the test.
pub(super) struct Proxy {
    /// The agent server, through the proxy.
    pub(super) real: OpenHands,
    state: Arc<ProxyState>,
    _server: HttpServer,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not arrive.
    NotSent,
    /// It does not arrive, and this status is the answer.
    Refused(u16),
    /// It arrives after two seconds.
    Late,
    /// Its response is lost.
    ResponseLost,
}

struct ProxyState {
    client: reqwest::Client,
    target: String,
    disconnected: watch::Sender<bool>,
    /// No request gets an answer while disconnected; otherwise its connection ends.
    hangs: AtomicBool,
    /// The fault of a request whose first line or body holds this text.
    fault: Mutex<Option<(&'static str, Fault)>>,
    /// The first lines of requests.
    requests: Mutex<Vec<String>>,
}

impl Proxy {
    pub(super) async fn start(real: OpenHands) -> Self {
        let state = Arc::new(ProxyState {
            client: http_client(),
            target: real.url.clone(),
            disconnected: watch::Sender::new(false),
            hangs: AtomicBool::new(false),
            fault: Mutex::default(),
            requests: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let server = HttpServer::start(move |request| {
            let state = Arc::clone(&shared);
            async move { state.answer(request).await.ok_or("lost") }
        });
        let server = server.await;
        let url = server.url.clone();
        Self {
            real: OpenHands { url, ..real },
            state,
            _server: server,
        }
    }

    /// Loses the response to the next request whose first line holds this text.
    pub(super) fn lose_response(&self, request: &'static str) {
        self.fail(request, Fault::ResponseLost);
    }

    /// Fails the next request whose first line or body holds this text.
    pub(super) fn fail(&self, request: &'static str, fault: Fault) {
        *self.state.fault.lock().unwrap() = Some((request, fault));
    }

    pub(super) fn disconnect(&self) {
        self.state.disconnected.send_replace(true);
    }

    /// Nothing gets an answer, on old connections and new ones.
    pub(super) fn hang(&self) {
        self.state.hangs.store(true, Ordering::Relaxed);
        self.disconnect();
    }

    pub(super) fn reconnect(&self) {
        self.state.disconnected.send_replace(false);
    }

    /// The number of requests that start with `start`.
    pub(super) fn count(&self, start: &str) -> usize {
        let requests = self.state.requests.lock().unwrap();
        let found = requests.iter().filter(|first| first.starts_with(start));
        found.count()
    }
}

impl ProxyState {
    /// The answer to a request; `None` if it is lost.
    async fn answer(&self, request: hyper::Request<Incoming>) -> Option<hyper::Response<Body>> {
        let mut disconnected = self.disconnected.subscribe();
        let answer = tokio::select! {
            biased;
            _ = disconnected.wait_for(|disconnected| *disconnected) => None,
            answer = self.forward(request) => answer,
        };
        if answer.is_none() && self.hangs.load(Ordering::Relaxed) {
            std::future::pending().await
        }
        answer
    }

    async fn forward(&self, request: hyper::Request<Incoming>) -> Option<hyper::Response<Body>> {
        let (head, body) = request.into_parts();
        let first = format!("{} {} HTTP/1.1", head.method, head.uri);
        let body = body.collect().await.ok()?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let is_it = |(part, _): &mut (&str, _)| first.contains(*part) || text.contains(*part);
        let fault = self.fault.lock().unwrap().take_if(is_it);
        let fault = fault.map(|(_, fault)| fault);
        self.requests.lock().unwrap().push(first);
        match fault {
            Some(Fault::NotSent) => return None,
            Some(Fault::Refused(status)) => {
                let body = r#"{"detail": "refused"}"#;
                return Some(HttpServer::response(status, "application/json", body));
            }
            Some(Fault::Late) => tokio::time::sleep(Duration::from_secs(2)).await,
            Some(Fault::ResponseLost) | None => {}
        }
        let url = format!("{}{}", self.target, head.uri);
        let request = self.client.request(head.method, url).headers(head.headers);
        let request = request.body(body.clone());
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = Full::new(response.bytes().await.ok()?).boxed_unsync();
        let mut answer = hyper::Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        // The body is sent in one piece.
        answer.headers_mut().remove("transfer-encoding");
        Some(answer).filter(|_| fault.is_none())
    }
}
