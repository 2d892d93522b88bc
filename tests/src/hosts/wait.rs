//! `mcp-gateway wait`: ends when backends are ready, or with the reason why not.

use super::home::Home;
use crate::harness::{Server, assert_contains, binary};

const TOKEN: &str = "t0ken-of-16-chars";

#[tokio::test]
async fn backends_are_waited_for_and_the_reason_is_said() {
    let home = Home::new();
    let good = format!("good={} --stdio", binary("mcp-conformance").display());
    let args = [
        "--backend",
        &good,
        "--backend",
        "bad=http://127.0.0.1:1/mcp",
        "--events",
        "memory",
    ];
    let gateway = Server::with_args("mcp-gateway", &args, &[("MCP_TOKEN", TOKEN)]).await;
    let wait = |more: &[&str], token: &str| {
        let args = [&["wait", "--url", &gateway.url], more].concat();
        let output = home.run("mcp-gateway", &args, &[("MCP_TOKEN", token)]);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    let (code, said) = wait(&["good"], TOKEN);
    assert_eq!(code, Some(0), "{said}");
    assert_contains(&said, "good: ready");
    let (code, said) = wait(&["--timeout", "1s"], TOKEN);
    assert_eq!(code, Some(1), "{said}");
    assert_contains(&said, "not ready after 1 s: bad: ");
    let (code, said) = wait(&["none", "--timeout", "0s"], TOKEN);
    assert_eq!(code, Some(1));
    assert_contains(&said, "no backend has this name; there are: bad, good");
    let (code, said) = wait(&["--timeout", "0s"], "wrong");
    assert_eq!(code, Some(1));
    assert_contains(&said, "gateway: ");
}
