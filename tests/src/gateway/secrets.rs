//! Secrets: no token of a client reaches a backend, and no secret of a backend reaches another one.

use std::collections::BTreeSet;

use serde_json::json;

use super::env::{Folder, misbehaving};
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::{Server, assert_contains, assert_lacks, eventually, rpc_call, wait_until};

const TOKEN: &str = "client-token-canary-4f1d";
const SECRET_OF_A: &str = "secret-of-a-canary-77aa";
const SECRET_OF_HTTP: &str = "secret-of-http-canary-88bb";
const ARGUMENT: &str = "argument-canary-99cc";

/// Returns the environment variables of a process.
fn environment(pid: i32) -> BTreeSet<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let entries = text.split('\0').filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

/// S7, S8, S9.
#[tokio::test]
async fn secrets_reach_only_their_backend() {
    let server = Server::start("mcp-conformance", &[]).await;
    let proxy = TestProxy::start(&server.url, ProxyMode::Forward).await;
    let folder = Folder::new();
    let secret = folder.write("secret", SECRET_OF_A);
    let (journal_a, journal_b) = (folder.path("a"), folder.path("b"));
    let token = folder.write("token", TOKEN);
    let events = folder.path("events.db");
    let config = format!(
        "[backends.a]\n{}\nenv = {{ A_KEY = \"file:{secret}\" }}\nenv_pass = [\"PASSED\", \"NOT_THERE\"]\n\
         [backends.b]\n{}\n\
         [backends.http]\nurl = {:?}\ntoken = {SECRET_OF_HTTP:?}\nheaders = {{ \"x-own\" = \"1\" }}\n",
        misbehaving(&["--journal", &journal_a]),
        misbehaving(&["--journal", &journal_b]),
        proxy.url,
    );
    let file = folder.write("gateway.toml", &config);
    let mut args = vec!["--config", file.as_str(), "--events", &events];
    args.extend(["--token-file", &token, "--log", "debug"]);
    let env = [
        ("PATH", "/usr/bin:/bin"),
        ("PASSED", "on purpose"),
        ("GATEWAY_SECRET", "gateway-canary"),
    ];
    let gateway = Server::with_args("mcp-gateway", &args, &env).await;

    let bearer = format!("Bearer {TOKEN}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("cookie", "session=cookie-canary"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-api-key", "key-canary"),
    ];
    let call = async |name: &str, arguments: serde_json::Value| {
        let body = rpc_call(name, arguments).to_string();
        gateway.post_with(&headers, body).await.body
    };
    let mut output = String::new();
    wait_until("all backends", async || {
        let status = call("gateway_status", json!({})).await;
        status.matches("running").count() >= 3
    })
    .await;
    for name in "a__work b__work http__greet http__fail http__nothing".split(' ') {
        let answer = call(name, json!({"name": ARGUMENT})).await;
        output += &answer.replace(ARGUMENT, "");
    }
    output += &call("gateway_status", json!({})).await;
    let recorded = eventually("the events", async || {
        let events = call("get_events", json!({"limit": 1000})).await;
        (events.matches("gateway.tool_call").count() >= 4).then_some(events)
    })
    .await;
    output += &recorded;
    let metrics = gateway.request("GET", "/metrics", &headers).await.body;
    assert_contains(&metrics, "mcp_gateway_backend_up{backend=\"a\"} 1");
    output += &metrics;
    output += &gateway.log();
    output += &String::from_utf8_lossy(&std::fs::read(&events).unwrap());
    let requests = proxy.requests();
    for request in &requests {
        let token = format!("Bearer {SECRET_OF_HTTP}");
        assert_eq!(request.headers["authorization"], token);
        assert_eq!(request.headers["x-own"], "1");
    }
    let at_http = format!("{requests:?}");
    let (at_a, at_b) = (folder.lines("a").join("\n"), folder.lines("b").join("\n"));
    let of_client = ["cookie-canary", "key-canary", "gateway-canary"];
    for canary in [TOKEN, SECRET_OF_A].into_iter().chain(of_client) {
        for text in [&output, &at_http, &at_a, &at_b] {
            assert_lacks(text, canary);
        }
    }
    assert_lacks(&output, SECRET_OF_HTTP);
    assert_lacks(&output, ARGUMENT);
    // The address of the client.
    assert_lacks(&at_http, "10.0.0.1");

    let path = "PATH=/usr/bin:/bin".to_owned();
    let secret = format!("A_KEY={SECRET_OF_A}");
    let of_a = BTreeSet::from([path.clone(), "PASSED=on purpose".to_owned(), secret]);
    assert_eq!(environment(folder.pids("a")[0]), of_a);
    assert_eq!(environment(folder.pids("b")[0]), BTreeSet::from([path]));
}
