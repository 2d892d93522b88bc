//! The names of spans, attributes and metrics of each program: dashboards and alerts of operators depend on them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::env::{Folder, Gateway};
use super::super::monitoring::Metrics;
use super::super::spans::{Span, SpanReceiver};
use super::our_servers::all;
use crate::committed;
use crate::harness::{Server, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The kind and the name of a span, or the name of a metric, by program; and the names of its attributes or labels.
type Names = BTreeMap<(String, String), BTreeSet<String>>;

/// Compares the names that the programs use now with the committed ones.
#[tokio::test]
async fn names_of_spans_and_metrics_are_fresh() {
    let servers = all();
    let mut names = Names::new();
    for ours in &servers {
        let receiver = SpanReceiver::start().await;
        let mut env = ours.env();
        env.extend(receiver.env(ours.name));
        let server = Server::start(ours.name, &env).await;
        let config = format!("[backends.b]\nurl = {:?}\n", server.url);
        let env = receiver.env("mcp-gateway");
        let gateway = Gateway::with_env(Folder::new(), &config, &[], &env).await;
        gateway.until("b", "running").await;
        let (list, failing) = (
            format!("b__{}", ours.list.0),
            format!("b__{}", ours.failing.0),
        );
        let prompts = gateway.result("prompts/list", json!({})).await;
        for (method, params) in [
            (
                "prompts/get",
                json!({"name": prompts["prompts"][0]["name"]}),
            ),
            ("tools/call", json!({"name": list, "arguments": {}})),
            (
                "tools/call",
                json!({"name": failing, "arguments": ours.failing.1}),
            ),
            ("tools/call", json!({"name": "b__no_such_tool"})),
            ("prompts/get", json!({"name": "b__no_such_prompt"})),
            ("resources/read", json!({"uri": "no-such:resource"})),
            ("tools/list", json!({})),
            ("ping", json!({})),
            ("no/such/method", json!({})),
        ] {
            let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            gateway
                .post_with(&[("traceparent", &parent)], body.to_string())
                .await;
        }
        // Nine that the gateway has answered and three that it has sent; and those of a failed request to the service.
        let spans = eventually("the spans of all calls", async || {
            let spans = receiver.in_trace(TRACE);
            let (answered, sent): (Vec<&Span>, Vec<&Span>) =
                spans.iter().partition(|span| !span.is_client);
            let has_failed = sent.iter().any(|span| span.has_failed);
            let is_all = answered.len() >= 9 + 3 && sent.len() >= 3 + 2 && has_failed;
            is_all.then_some(spans)
        })
        .await;
        spans.iter().for_each(|span| add_span(&mut names, span));
        for (program, server) in [(ours.name, &server), ("mcp-gateway", &*gateway)] {
            add_metrics(&mut names, program, &Metrics::scrape(server).await);
        }
    }
    if servers.len() == 3 {
        committed::check("tests/snapshots/telemetry.txt", &text(&names));
    }
}

fn add_span(names: &mut Names, span: &Span) {
    let kind = if span.is_client { "client" } else { "server" };
    // The name of the tool or prompt is one of many.
    let name = span.name.split(' ').next().unwrap();
    let suffix = if span.name.contains(' ') { " ITEM" } else { "" };
    let key = (span.service.clone(), format!("span {kind} {name}{suffix}"));
    let attributes = names.entry(key).or_default();
    attributes.extend(span.attributes.keys().cloned());
}

fn add_metrics(names: &mut Names, program: &str, metrics: &Metrics) {
    for (name, kind) in &metrics.types {
        let help = metrics.help(name);
        let key = (program.to_owned(), format!("{kind} {name}, {help:?}"));
        let labels = metrics.labels.get(name).cloned().unwrap_or_default();
        names.entry(key).or_default().extend(labels);
    }
}

fn text(names: &Names) -> String {
    let lines = names.iter().map(|((program, name), parts)| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let line = format!("{program}: {name}: {}", parts.join(" "));
        format!("{}\n", line.trim_end_matches(": "))
    });
    lines.collect()
}
