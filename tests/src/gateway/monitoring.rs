//! `/metrics`, and what `docs/monitoring` makes of it: each metric is documented, and what the dashboard and
//! the alert rules name is there.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Output, Stdio};

use mcp_client::EraChoice;
use mcp_core::tool::tokens;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::env::{Folder, Gateway, WITH_LATE};
use super::events::assert_each_call_is_recorded_once;
use crate::committed::root;
use crate::gateway::roles::page::Viewer;
use crate::harness::real::promtool;
use crate::harness::{
    Dialect, Server, assert_contains, assert_ends_with, assert_lacks, eventually,
};
use crate::surface::SERVERS;

const RULES: &str = "docs/monitoring/alerts.yml";
const DASHBOARD: &str = "docs/monitoring/dashboard.json";

/// Reads a file of the workspace.
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The metrics of one server.
pub(super) struct Metrics {
    text: String,
    /// The type of each, by the name that the older format gives it.
    pub(super) types: BTreeMap<String, String>,
    /// The names of its labels.
    pub(super) labels: BTreeMap<String, BTreeSet<String>>,
}

impl Metrics {
    pub(super) async fn scrape(server: &Server) -> Self {
        let reply = server.request("GET", "/metrics", &[]).await;
        assert_eq!(
            reply.headers["content-type"],
            "text/plain; version=0.0.4; charset=utf-8"
        );
        let mut metrics = Self {
            types: BTreeMap::new(),
            labels: BTreeMap::new(),
            text: reply.body,
        };
        for line in metrics.text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, kind) = described.split_once(' ').unwrap();
                metrics.types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (sample, labels) = line.split_once('{').unwrap_or((line, ""));
                let sample = sample.split(' ').next().unwrap();
                let ends = ["_bucket", "_sum", "_count"];
                let family = ends.iter().find_map(|end| sample.strip_suffix(end));
                let family = family.filter(|name| metrics.types.contains_key(*name));
                let family = family.unwrap_or(sample);
                assert!(metrics.types.contains_key(family), "{line}");
                let known = metrics.labels.entry(family.to_owned()).or_default();
                known.extend(label_names(labels));
            }
        }
        metrics
    }

    /// The sentence about a metric.
    pub(super) fn help(&self, name: &str) -> &str {
        let start = format!("# HELP {name} ");
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(&start)).unwrap()
    }

    /// The names of all series.
    fn series(&self) -> BTreeSet<String> {
        let names = self.types.iter().flat_map(|(name, kind)| match &**kind {
            "histogram" => ["_bucket", "_sum", "_count"]
                .map(|end| format!("{name}{end}"))
                .to_vec(),
            _ => vec![name.clone()],
        });
        names.collect()
    }

    /// The value of the series that begins so.
    fn value(&self, series: &str) -> f64 {
        let mut lines = self.text.lines();
        let line = lines.find_map(|line| line.strip_prefix(series));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }
}

fn label_names(labels: &str) -> impl Iterator<Item = String> {
    let names = labels.split("=\"").map(|part| {
        let start = part.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &part[start.map_or(0, |at| at + 1)..]
    });
    names
        .filter(|name| !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

/// A gateway after some calls: one with success, and some that fail, each in another way.
async fn used_gateway() -> Gateway {
    let gateway = Gateway::of(WITH_LATE).await;
    gateway.until_lists("late__slow", true).await;
    for (tool, arguments) in [
        ("b__greet", json!({"name": "Ada"})),
        ("b__greet", json!({"name": "Bob"})),
        ("b__slow_compute", json!({"seconds": 1})),
        ("b__test_error_handling", json!({})),
        ("b__greet", json!({"nonsense": 1})),
        ("late__slow", json!({"step": 50, "steps": 1000})),
        ("nothing", json!({})),
    ] {
        gateway.answer(tool, arguments).await;
    }
    let reply = gateway.post_with(&[("host", "evil.example")], "").await;
    assert_eq!(reply.status, 403);
    gateway
}

/// The series of calls, by side, tool and kind of error, and others; and their values.
const SERIES: &str = r#"
server b__greet - 2
client b__greet - 2
server b__test_error_handling tool_error 1
client b__test_error_handling tool_error 1
server late__slow timeout 1
client late__slow timeout 1
client b__slow cancelled 1
server b__slow_compute forbidden 1
client b__slow_compute forbidden 0
server - tool_not_found 1
mcp_refused_requests_total{reason="foreign_host"} 1
mcp_gateway_denied_requests_total{reason="configuration"} 1
mcp_gateway_denied_requests_total{reason="person"} 0
mcp_gateway_backend_requests_in_flight{backend="b"} 0
mcp_gateway_backend_requests_waiting{backend="b"} 0
"#;

/// The name of the series of a row, and its value.
fn series(row: &str) -> (String, f64) {
    let (series, value) = row.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap();
    let [side, tool, error] = series.split(' ').collect::<Vec<_>>()[..] else {
        return (format!("{series} "), value);
    };
    let label = |name: &str, value: &str| match value {
        "-" => String::new(),
        value => format!(r#",{name}="{value}""#),
    };
    let backend = match (side, tool.split_once("__")) {
        ("client", Some((key, _))) => format!(r#"backend="{key}","#),
        _ => String::new(),
    };
    let (tool, error) = (label("gen_ai_tool_name", tool), label("error_type", error));
    let name = format!("mcp_{side}_operation_duration_seconds_count");
    (
        format!(r#"{name}{{{backend}mcp_method_name="tools/call"{tool}{error}}} "#),
        value,
    )
}

#[tokio::test]
async fn metrics_are_those_that_page_dashboard_and_rules_name() {
    let gateway = used_gateway().await;
    let client = gateway.client(EraChoice::Newest, None).await;
    Gateway::abort_slow_call(client).await;
    let metrics = eventually("the cancelled call", async || {
        let metrics = Metrics::scrape(&gateway).await;
        let (cancelled, count) = series("client b__slow cancelled 1");
        (metrics.value(&cancelled) == count).then_some(metrics)
    })
    .await;
    for (series, count) in SERIES.trim().lines().map(series) {
        assert_eq!(metrics.value(&series), count, "{series}\n{}", metrics.text);
    }
    let ends = "ok ok denied failed failed timed_out cancelled";
    let ends: Vec<&str> = ends.split(' ').collect();
    assert_each_call_is_recorded_once(&gateway, &ends).await;
    assert_tokens_are_those_of_list_page_and_doctor(&gateway, &metrics).await;
    check_dashboard_and_rules(&metrics);
    assert_page_names_the_metrics_that_exist(&metrics);
    assert_format_is_the_one_that_is_accepted(&gateway).await;
}

async fn assert_tokens_are_those_of_list_page_and_doctor(gateway: &Gateway, metrics: &Metrics) {
    let list = gateway.request_as(Dialect::Modern, "tools/list", "", "");
    let list = list.await.json()["result"]["tools"].take();
    let tools = list.as_array().unwrap().iter();
    let tokens: usize = tools.map(|tool| tokens(&tool.to_string())).sum();
    assert!(tokens > 100, "{list}");
    let counted = metrics.value("mcp_listed_tokens ");
    assert_eq!(counted.to_string(), tokens.to_string());
    let page: Value = {
        let (_, text) = Viewer::of(gateway, "ada").data("tools", json!({})).await;
        text.parse().unwrap()
    };
    for key in ["b", "late"] {
        let tools = page["tools"].as_array().unwrap().iter();
        let of_backend = tools.filter(|tool| tool["backend"] == key);
        let tokens: u64 = of_backend
            .map(|tool| tool["tokens"].as_u64().unwrap())
            .sum();
        let series = format!("mcp_gateway_backend_listed_tokens{{backend=\"{key}\"}} ");
        assert_eq!(
            metrics.value(&series).to_string(),
            tokens.to_string(),
            "{series}"
        );
    }
    let port = gateway.url.rsplit([':', '/']).nth(1).unwrap();
    let doctor = ["doctor", "--port", port];
    let (_, told) = gateway.folder.command("memory", &doctor).await;
    assert_contains(&told, &format!("about {tokens} tokens for"));
}

async fn assert_format_is_the_one_that_is_accepted(gateway: &Gateway) {
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let accept = [("accept", accept)];
    let reply = gateway.request("GET", "/metrics", &accept).await;
    let kind = reply.headers["content-type"].to_str().unwrap();
    assert_contains(kind, "application/openmetrics-text; version=1.0.0");
    assert_ends_with(&reply.body, "\n# EOF\n");
    let unit = "# UNIT mcp_server_operation_duration_seconds seconds\n";
    assert_contains(&reply.body, unit);
    assert_contains(&reply.body, "# TYPE mcp_build info\n");
    let any = [("accept", "*/*")];
    let plain = gateway.request("GET", "/metrics", &any).await.body;
    assert_contains(&plain, "# TYPE mcp_build_info gauge\n");
    assert_lacks(&plain, "# EOF");
}

/// The page documents each metric that exists, with its type and its labels.
fn assert_page_names_the_metrics_that_exist(metrics: &Metrics) {
    let page = read("docs/monitoring.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut documented = BTreeMap::new();
    for row in rows {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.next().unwrap().trim_end_matches('`').to_owned();
        let kind = cells.next().unwrap().to_owned();
        let labels: BTreeSet<String> = label_cells(cells.next().unwrap());
        if let Some(used) = metrics.labels.get(&name) {
            let more: Vec<_> = used
                .difference(&labels)
                .filter(|label| *label != "le")
                .collect();
            assert!(more.is_empty(), "labels of {name}: {more:?}");
        }
        documented.insert(name, kind);
    }
    // This gateway is alone: the metrics of several are in the tests of replicas.
    documented.retain(|name, _| !name.starts_with("mcp_gateway_replica"));
    assert_eq!(documented, metrics.types);
}

fn label_cells(cell: &str) -> BTreeSet<String> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap()
}

/// The expressions of the dashboard, with a length in place of the variable.
fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let expressions = expressions.map(|text| text.replace("$__rate_interval", "5m"));
    let expressions: Vec<_> = expressions.collect();
    assert!(expressions.len() > 20);
    expressions
}

/// The variables of the dashboard, and all expressions.
fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables =
        variables.filter_map(|variable| Some(variable["definition"].as_str()?.to_owned()));
    let queries = expressions().into_iter().chain(variables);
    queries.chain([read(RULES)]).collect()
}

fn check_dashboard_and_rules(metrics: &Metrics) {
    let series = metrics.series();
    let labels: BTreeSet<&String> = metrics.labels.values().flatten().collect();
    let mut found = BTreeSet::new();
    for query in queries() {
        let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names = words.filter(|word| word.starts_with("mcp_") || word.starts_with("process_"));
        for name in names.filter(|name| !labels.contains(&(*name).to_owned())) {
            assert!(series.contains(name), "{name} in {query}");
            found.insert(name.to_owned());
        }
    }
    assert!(found.len() > 20, "{found:?}");
}

/// Runs promtool with this input; `None` if it is not there.
async fn run(args: &[&str], input: &str) -> Option<Output> {
    let mut child = Command::new(promtool()?)
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    Some(child.wait_with_output().await.unwrap())
}

async fn check(args: &[&str], input: &str) {
    if let Some(output) = run(args, input).await {
        let text = format!("{output:?}").replace("\\n", "\n");
        assert!(output.status.success(), "{args:?}: {text}");
    }
}

#[tokio::test]
async fn promtool_accepts_the_metrics_of_every_server() {
    let gateway = used_gateway().await;
    let metrics = Metrics::scrape(&gateway).await;
    check(&["check", "metrics"], &metrics.text).await;
    for name in SERVERS.into_iter().skip(1) {
        let server = Server::start(name, &[]).await;
        server.result("tools/list", json!({})).await;
        let metrics = Metrics::scrape(&server).await;
        check(&["check", "metrics"], &metrics.text).await;
    }
    // It would not accept everything.
    if let Some(output) = run(&["check", "metrics"], "bad_total{ 1\n").await {
        assert!(!output.status.success());
    }
}

#[tokio::test]
async fn promtool_accepts_rules_and_dashboard_and_alerts_are_tested() {
    check(&["check", "rules", RULES], "").await;
    check(&["test", "rules", "docs/monitoring/alerts_test.yml"], "").await;
    let rules = expressions().into_iter().enumerate();
    let rules: Vec<Value> = rules
        .map(|(n, text)| json!({"record": format!("panel:{n}"), "expr": text}))
        .collect();
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string();
    let folder = Folder::new();
    check(&["check", "rules", &folder.write("rules.yml", &file)], "").await;
    // Each alert of the rules has a test.
    let (rules, tests) = (read(RULES), read("docs/monitoring/alerts_test.yml"));
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let mut count = 0;
    for alert in alerts {
        count += 1;
        assert_contains(&tests, &format!("alertname: {alert}\n        exp_alerts:"));
    }
    assert!(count > 5);
}
