//! What reaches whom: no token of a client reaches a backend, no secret of a backend another one.

use std::collections::BTreeSet;

use serde_json::json;

use super::front::{Front, Manner};
use super::lab::{Folder, fixture};
use crate::harness::{Server, assert_contains};

const TOKEN: &str = "client-token-canary-4f1d";
const OF_A: &str = "secret-of-a-canary-77aa";
const OF_HTTP: &str = "secret-of-http-canary-88bb";
const VALUE: &str = "argument-canary-99cc";

/// The environment of a process: what it was started with.
fn environment(pid: i32) -> BTreeSet<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0')
        .filter(|entry| !entry.is_empty())
        .map(str::to_owned)
        .collect()
}

/// S7, S8, S9.
#[tokio::test]
async fn nobody_sees_what_is_not_theirs() {
    let server = Server::start("mcp-conformance", &[]).await;
    let front = Front::of(&server.url, Manner::Pass).await;
    let folder = Folder::new();
    let secret = folder.write("secret", OF_A);
    let (journal_a, journal_b) = (folder.path("a"), folder.path("b"));
    let token = folder.write("token", TOKEN);
    let events = folder.path("events.db");
    let config = format!(
        "[backends.a]\n{}\nenv = {{ A_KEY = \"file:{secret}\" }}\nenv_pass = [\"PASSED\", \"NOT_THERE\"]\n\
         [backends.b]\n{}\n\
         [backends.http]\nurl = {:?}\ntoken = {OF_HTTP:?}\nheaders = {{ \"x-own\" = \"1\" }}\n",
        fixture(&["odd", "--journal", &journal_a]),
        fixture(&["odd", "--journal", &journal_b]),
        front.url,
    );
    let file = folder.write("gateway.toml", &config);
    let args = [
        "--config",
        file.as_str(),
        "--events",
        &events,
        "--token-file",
        &token,
        "--log",
        "debug",
    ];
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
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        gateway.post_with(&headers, body.to_string()).await.body
    };
    let mut said = String::new();
    crate::harness::eventually("all backends", async || {
        let status = call("gateway_status", json!({})).await;
        (status.matches("running").count() >= 3).then_some(())
    })
    .await;
    for name in [
        "a__work",
        "b__work",
        "http__greet",
        "http__fail",
        "http__nothing",
    ] {
        said += &call(name, json!({"name": VALUE})).await.replace(VALUE, "");
    }
    said += &call("gateway_status", json!({})).await;
    let written = crate::harness::eventually("the events", async || {
        let events = call("get_events", json!({"limit": 1000})).await;
        (events.matches("gateway.tool_call").count() >= 4).then_some(events)
    })
    .await;
    said += &written;
    let metrics = gateway.request("GET", "/metrics", &headers).await.body;
    assert_contains(&metrics, "mcp_gateway_backend_up{backend=\"a\"} 1");
    said += &metrics;
    said += &gateway.log();
    said += &String::from_utf8_lossy(&std::fs::read(&events).unwrap());
    for canary in [
        TOKEN,
        OF_A,
        OF_HTTP,
        VALUE,
        "cookie-canary",
        "key-canary",
        "gateway-canary",
    ] {
        assert!(!said.contains(canary), "{canary} in {said}");
    }

    let seen = front.seen();
    assert!(
        seen.iter()
            .all(|seen| seen.headers["authorization"] == format!("Bearer {OF_HTTP}"))
    );
    assert!(seen.iter().all(|seen| seen.headers["x-own"] == "1"));
    let at_http = format!("{seen:?}");
    let at_a = folder.lines("a").join("\n");
    let at_b = folder.lines("b").join("\n");
    for canary in [TOKEN, "cookie-canary", "key-canary", "gateway-canary", OF_A] {
        for (place, text) in [("http", &at_http), ("a", &at_a), ("b", &at_b)] {
            assert!(!text.contains(canary), "{canary} at {place}");
        }
    }
    assert!(
        !at_http.contains("10.0.0.1"),
        "who the client is, is not told"
    );

    let (a, b) = (
        environment(folder.pids("a")[0]),
        environment(folder.pids("b")[0]),
    );
    let of_a = [
        "PATH=/usr/bin:/bin".to_owned(),
        "PASSED=on purpose".to_owned(),
        format!("A_KEY={OF_A}"),
    ];
    assert_eq!(a, BTreeSet::from(of_a));
    assert_eq!(b, BTreeSet::from(["PATH=/usr/bin:/bin".to_owned()]));
}
