//! One trace over the gateway, each of our servers, and its real service.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::super::env::{Folder, Gateway};
use super::super::spans::{Span, SpanReceiver};
use super::our_servers::{OurServer, all};
use crate::harness::{Server, eventually, rpc_call};
use crate::seed_001::LONG_CALLS;

/// The span of the client.
const CLIENT: &str = "00f067aa0ba902b7";

/// A proxy in front of a service, which records the bytes that the service receives.
struct RecordingProxy {
    /// `127.0.0.1:PORT`.
    address: String,
    received: Arc<Mutex<Vec<u8>>>,
}

impl RecordingProxy {
    /// In front of the service at `http://…` or `unix://…`.
    async fn start(service: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let (service, record) = (service.to_owned(), Arc::clone(&received));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (service, record) = (service.clone(), Arc::clone(&record));
                tokio::spawn(async move {
                    match service.strip_prefix("unix://") {
                        Some(path) => {
                            let server = UnixStream::connect(path).await.unwrap();
                            forward(client, server, &record).await;
                        }
                        None => {
                            let address = service.strip_prefix("http://").unwrap();
                            let server = TcpStream::connect(address).await.unwrap();
                            forward(client, server, &record).await;
                        }
                    }
                });
            }
        });
        Self { address, received }
    }

    /// The spans of a trace that requests have named as their parents.
    fn parents(&self, trace: &str) -> Vec<String> {
        let received = self.received.lock().unwrap();
        let text = String::from_utf8_lossy(&received);
        let start = format!("traceparent: 00-{trace}-");
        let headers = text.lines().filter_map(|line| line.strip_prefix(&start));
        let headers = headers.map(|header| header.strip_suffix("-01").unwrap().to_owned());
        headers.collect()
    }
}

async fn forward(client: TcpStream, server: impl AsyncRead + AsyncWrite, record: &Mutex<Vec<u8>>) {
    let (mut requests, mut answers) = client.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let send = async {
        let mut part = [0; 4096];
        loop {
            let len = requests.read(&mut part).await.unwrap_or(0);
            if len == 0 || to_server.write_all(&part[..len]).await.is_err() {
                break;
            }
            record.lock().unwrap().extend_from_slice(&part[..len]);
        }
        let _ = to_server.shutdown().await;
    };
    tokio::join!(send, copy(&mut from_server, &mut answers))
        .1
        .ok();
}

#[tokio::test]
async fn one_trace_shows_the_gateway_each_server_and_its_service() {
    for ours in all() {
        let receiver = SpanReceiver::start().await;
        let (address_variable, service) = &ours.env[0];
        let proxy = RecordingProxy::start(service).await;
        let scheme = match *address_variable {
            "DOCKER_HOST" => "tcp",
            _ => "http",
        };
        let address = format!("{scheme}://{}", proxy.address);
        let mut env = ours.env();
        env[0].1 = &address;
        env.push(LONG_CALLS);
        env.extend(receiver.env("server"));
        let server = Server::start(ours.name, &env).await;
        let config = format!("[backends.b]\nurl = {:?}\n", server.url);
        let env = [&receiver.env("gateway")[..], &[LONG_CALLS]].concat();
        let gateway = Gateway::with_env(Folder::new(), &config, &[], &env).await;
        gateway.until("b", "running").await;
        let observed = Observed {
            ours: &ours,
            gateway: &gateway,
            receiver: &receiver,
            proxy: &proxy,
        };
        observed.call((ours.list.0, json!({})), None).await;
        let status = Some(ours.failing_status);
        observed.call(ours.failing.clone(), status).await;
    }
}

struct Observed<'a> {
    ours: &'a OurServer,
    gateway: &'a Gateway,
    receiver: &'a SpanReceiver,
    proxy: &'a RecordingProxy,
}

impl Observed<'_> {
    /// Calls a tool in a trace, and checks all of its spans. `failure` is the status of the service if it fails.
    async fn call(&self, (tool, arguments): (&str, Value), failure: Option<&str>) {
        let name = format!("b__{tool}");
        let body = rpc_call(&name, arguments).to_string();
        let trace = &*uuid::Uuid::new_v4().simple().to_string();
        let traceparent = format!("00-{trace}-{CLIENT}-01");
        let headers = [("traceparent", traceparent.as_str())];
        let reply = self.gateway.post_with(&headers, body).await;
        let has_failed = failure.is_some();
        assert_eq!(
            reply.json()["result"]["isError"] == true,
            has_failed,
            "{tool}"
        );

        let find = |service: &str, is_client: bool, parent: &str| {
            let spans = self.receiver.in_trace(trace);
            let mut found = spans.into_iter().filter(|span| {
                (span.service.as_str(), span.is_client, span.parent.as_str())
                    == (service, is_client, parent)
            });
            found.next()
        };
        let served = eventually("the span of the gateway", async || {
            find("gateway", false, CLIENT)
        })
        .await;
        assert_span(&served, &format!("tools/call {name}"), &name, has_failed);
        let sent = eventually("its request", async || find("gateway", true, &served.id)).await;
        // An error result of a backend is no failure of the request to it.
        assert_span(&sent, &format!("tools/call {tool}"), tool, false);
        let answered = eventually("the span of the server", async || {
            find("server", false, &sent.id)
        })
        .await;
        assert_span(&answered, &format!("tools/call {tool}"), tool, has_failed);

        let requests = eventually("the requests to the service", async || {
            let spans = self.receiver.in_trace(trace);
            let requests = spans.into_iter().filter(|span| span.parent == answered.id);
            let requests: Vec<Span> = requests.collect();
            (requests.len() == self.proxy.parents(trace).len() && !requests.is_empty())
                .then_some(requests)
        })
        .await;
        for request in &requests {
            assert!(
                request.is_client && request.service == "server",
                "{request:?}"
            );
            let attributes = &request.attributes;
            assert_eq!(request.name, attributes["http.request.method"]);
            let address = format!(
                "{}:{}",
                attributes["server.address"], attributes["server.port"]
            );
            assert_eq!(address, self.proxy.address);
            let status = &attributes["http.response.status_code"];
            assert_eq!(request.has_failed, status.as_str() >= "400", "{request:?}");
        }
        if let Some(status) = failure {
            let failed = requests.iter().filter(|request| request.has_failed);
            let errors: Vec<_> = failed
                .map(|request| request.attributes["error.type"].as_str())
                .collect();
            assert_eq!(errors, [status], "{}: {requests:?}", self.ours.name);
        }
        // Each request names its own span to the service.
        let mut ids: Vec<_> = requests.into_iter().map(|request| request.id).collect();
        let mut parents = self.proxy.parents(trace);
        ids.sort();
        parents.sort();
        assert_eq!(ids, parents, "{}", self.ours.name);
    }
}

fn assert_span(span: &Span, name: &str, tool: &str, has_failed: bool) {
    assert_eq!(
        (span.name.as_str(), span.has_failed),
        (name, has_failed),
        "{span:?}"
    );
    assert_eq!(span.attributes["gen_ai.tool.name"], tool);
    let error = span.attributes.get("error.type").map(String::as_str);
    assert_eq!(error, has_failed.then_some("tool_error"));
}
