//! One trace over the gateway, each of our servers, and its real service.

use serde_json::{Value, json};

use super::super::env::{Folder, Gateway};
use super::super::spans::{Span, SpanReceiver};
use super::super::test_proxy::{ProxyMode, TestProxy};
use super::our_servers::{OurServer, all};
use crate::harness::{Server, eventually, rpc_call};
use crate::seed_001::LONG_CALLS;

/// The span of the client.
const CLIENT: &str = "00f067aa0ba902b7";

#[tokio::test]
async fn one_trace_shows_the_gateway_each_server_and_its_service() {
    for ours in all() {
        let receiver = SpanReceiver::start().await;
        let (address_variable, service) = &ours.env[0];
        let proxy = TestProxy::start(service, ProxyMode::Forward).await;
        let address = match *address_variable {
            "DOCKER_HOST" => proxy.origin().replace("http:", "tcp:"),
            _ => proxy.origin().to_owned(),
        };
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
    proxy: &'a TestProxy,
}

impl Observed<'_> {
    /// The spans of a trace that requests to the service have named as their parents.
    fn parents(&self, trace: &str) -> Vec<String> {
        let start = format!("00-{trace}-");
        let requests = self.proxy.requests().into_iter();
        let headers = requests.flat_map(|request| {
            let headers = request.headers.get_all("traceparent").into_iter();
            headers.cloned().collect::<Vec<_>>()
        });
        let parents = headers.filter_map(|header| {
            let parent = header.to_str().unwrap().strip_prefix(&start)?;
            Some(parent.strip_suffix("-01").unwrap().to_owned())
        });
        parents.collect()
    }

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
            (requests.len() == self.parents(trace).len() && !requests.is_empty())
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
                "http://{}:{}",
                attributes["server.address"], attributes["server.port"]
            );
            assert_eq!(address, self.proxy.origin());
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
        let mut parents = self.parents(trace);
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
