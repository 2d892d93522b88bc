//! Authentication: tokens, hosts and origins, and servers that refuse to start without a token.

mod tokens;

use std::path::PathBuf;

use serde_json::json;

use crate::commands::{Ended, run};
use crate::harness::{
    Dialect, RawConnection, Reply, Server, assert_contains, assert_starts_with, post,
};

const FIXTURE: &str = "mcp-conformance";
const TOKEN: &str = "c4nary-7f3a-51d8";

async fn guarded() -> Server {
    Server::start(FIXTURE, &[("MCP_TOKEN", TOKEN)]).await
}

/// Writes a new file with this text.
pub(crate) fn file(text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(uuid::Uuid::new_v4().to_string());
    std::fs::write(&path, text).unwrap();
    path
}

/// Starts a server that is expected to exit.
fn ended(args: &[&str], env: &[(&str, &str)]) -> Ended {
    run(FIXTURE, &[&["--port", "0"], args].concat(), env)
}

pub(crate) async fn ping(server: &Server, authorization: &str) -> Reply {
    let body = Dialect::Unversioned.request("1", "ping", "");
    server
        .post_with(&[("authorization", authorization)], body)
        .await
}

/// The status of a `ping` with this token.
pub(crate) async fn status(server: &Server, token: &str) -> u16 {
    ping(server, &format!("Bearer {token}")).await.status
}

#[tokio::test]
async fn token_is_set_by_flag_variable_or_file() {
    let path = file(&format!("  {TOKEN}\n"));
    let path = path.to_str().unwrap();
    let (flag, file) = (["--token", TOKEN], ["--token-file", path]);
    let variable = [("MCP_TOKEN", TOKEN)];
    let variables = [("MCP_TOKEN_FILE", path), ("MCP_TOKEN", "")];
    for (args, env) in [
        (&flag[..], &[][..]),
        (&[], &variable),
        (&file, &[]),
        (&[], &variables),
    ] {
        let server = Server::with_args(FIXTURE, args, env).await;
        let status = ping_status(&server, &["Host: localhost"]).await;
        assert_eq!(status, 401, "{args:?}");
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let reply = ping(&server, &format!("{scheme} {TOKEN}")).await;
            assert_eq!(reply.status, 200, "{args:?} {scheme}");
        }
    }
}

/// An answer says whether there is a header, and whether it has a token, but nothing about the token.
#[tokio::test]
async fn wrong_tokens_get_identical_answers() {
    let server = guarded().await;
    let long = format!("Authorization: Bearer {}", "x".repeat(20_000));
    let lines: [&[u8]; 11] = [
        b"X-None: 1",
        b"Authorization:",
        b"Authorization: Bearer",
        b"Authorization: Bearer ",
        b"Authorization: Bearer wrong",
        b"Authorization: Bearer c4nary-7f3",
        b"Authorization: Bearer c4nary-7f3a-51d80a",
        b"Authorization: Basic YzRuYXJ5LTdmM2E6",
        b"Authorization: c4nary-7f3a-51d8",
        b"Authorization: Bearer \xc3\xa4\xff",
        long.as_bytes(),
    ];
    for dialect in Dialect::ALL {
        let mut fields: Vec<String> = Vec::new();
        for (name, value) in dialect.headers() {
            fields.push(format!("{name}: {value}"));
        }
        fields.push("AUTHORIZATION-LINE".to_owned());
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let text = post(&fields, &dialect.request("1", "ping", ""));
        let (before, after) = text.split_once("AUTHORIZATION-LINE").unwrap();
        let mut answers = Vec::new();
        for line in lines {
            let request = [before.as_bytes(), line, after.as_bytes()].concat();
            let reply = RawConnection::round_trip(&server.url, request).await;
            assert_eq!(reply.status, 401, "{}", String::from_utf8_lossy(line));
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
            let error = json!({"code": 40100, "data": {"kind": "unauthorized"}});
            assert_has!(reply.json(), {"error": error, "id": null});
            answers.push(reply.body);
        }
        answers.sort();
        answers.dedup();
        assert_eq!(answers.len(), 3, "{answers:?}");
        for reason in [
            "the request has no Authorization header",
            "does not have the form `Bearer TOKEN`",
            "does not know the token",
        ] {
            assert_contains(&answers.concat(), reason);
        }
        let advice = "; send `Authorization: Bearer TOKEN` with a token of this server, as MCP_TOKEN or its token file";
        for answer in &answers {
            assert_contains(answer, advice);
        }
    }
}

#[tokio::test]
async fn second_token_beside_a_valid_one_is_refused() {
    let server = guarded().await;
    let good = format!("Authorization: Bearer {TOKEN}");
    for fields in [
        [good.as_str(), "Authorization: Bearer wrong"],
        ["Authorization: Bearer wrong", good.as_str()],
    ] {
        let fields = ["Host: localhost", fields[0], fields[1]];
        assert_eq!(ping_status(&server, &fields).await, 401);
    }
    // A foreign page does not learn whether a token is needed, and health checks need none.
    assert_eq!(ping_status(&server, &["Host: evil.example"]).await, 403);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.request("GET", path, &[]).await.status, 200);
    }
}

#[tokio::test]
async fn other_bind_address_requires_token_or_insecure_no_auth() {
    for (args, env) in [
        (&["--bind", "0.0.0.0"][..], &[][..]),
        (&["--bind", "::"], &[("MCP_TOKEN", " ")]),
    ] {
        let ended = ended(args, env);
        assert_eq!(ended.code, 78);
        // Other tasks may log further lines.
        let mut lines = ended.stderr.lines();
        let stderr = lines.find(|line| line.contains("--bind"));
        let stderr = stderr.unwrap_or_default();
        for word in [args[1], "--token", "MCP_TOKEN", "--insecure-no-auth"] {
            assert!(stderr.contains(word), "{stderr:?} lacks {word}");
        }
        assert!(ended.stdout.is_empty());
    }

    let open = ["--bind", "0.0.0.0", "--insecure-no-auth"];
    let server = Server::with_args(FIXTURE, &open, &[]).await;
    assert_eq!(ping_status(&server, &["Host: localhost"]).await, 200);

    let locked = ["--bind", "0.0.0.0", "--token", TOKEN];
    let server = Server::with_args(FIXTURE, &locked, &[]).await;
    assert_eq!(ping_status(&server, &["Host: localhost"]).await, 401);
}

#[tokio::test]
async fn token_file_without_token_prevents_the_start() {
    let empty = file(" \n");
    for path in [empty.to_str().unwrap(), "/no/such/token"] {
        let ended = ended(&["--token-file", path], &[]);
        assert_eq!(ended.code, 78, "{path}");
        assert_contains(&ended.stderr, "--token-file");
    }
}

#[tokio::test]
async fn tokens_are_in_no_log_and_no_help() {
    let env = [("MCP_TOKEN", TOKEN), ("MCP_LOG", "trace")];
    let server = Server::start(FIXTURE, &env).await;
    let wrong = "Bearer wr0ng-t0ken-of-16-chars";
    for (token, status) in [(&*format!("Bearer {TOKEN}"), 200), (wrong, 401)] {
        assert_eq!(ping(&server, token).await.status, status);
    }
    let get = [("authorization", wrong)];
    assert_eq!(server.request("GET", "/mcp", &get).await.status, 405);
    // Something is logged at trace.
    server.wait_for_log("refused").await;
    let log = server.log();
    assert!(!log.contains(TOKEN) && !log.contains("wr0ng"), "{log}");

    for args in [&["--help"][..], &["--port", "x"], &["--no-such-flag"]] {
        let ended = ended(args, &[("MCP_TOKEN", TOKEN)]);
        let text = ended.stdout + &ended.stderr;
        assert!(!text.contains(TOKEN), "{text}");
    }
}

/// Returns the status of a `ping` with these `Host` and `Origin` lines.
async fn ping_status(server: &Server, fields: &[&str]) -> u16 {
    let body = Dialect::Unversioned.request("1", "ping", "");
    let head = post(fields, &body).replacen("Host: localhost\r\n", "", 1);
    RawConnection::round_trip(&server.url, head).await.status
}

#[tokio::test]
async fn only_loopback_hosts_and_origins_are_allowed() {
    let server = Server::start(FIXTURE, &[]).await;
    assert_starts_with(&server.url, "http://127.0.0.1:");
    // A target that is a whole URL takes precedence over the header.
    for (host, status) in [("evil.example", 403), ("localhost:1", 200)] {
        let body = Dialect::Unversioned.request("1", "ping", "");
        let text = post(&[], &body).replace("/mcp", &format!("http://{host}/mcp"));
        let reply = RawConnection::round_trip(&server.url, text).await;
        assert_eq!(reply.status, status, "{host}");
    }
    for host in "localhost LocalHost:1 127.0.0.1:8080 127.8.9.1 [::1] [::1]:99".split(' ') {
        let field = format!("Host: {host}");
        assert_eq!(ping_status(&server, &[&field]).await, 200, "{host}");
        for scheme in ["http", "https"] {
            let origin = format!("Origin: {scheme}://{host}");
            for field in [&*field, "Host: 127.0.0.1:1"] {
                let status = ping_status(&server, &[field, &origin]).await;
                assert_eq!(status, 200, "{origin}");
            }
        }
    }
    let foreign = "evil.example ¦ localhost.evil.example ¦ 127.0.0.1.evil.example ¦ localhost:80@evil.example ¦ \
        [::1].evil.example ¦ [::1]evil.example ¦ [localhost ¦ [::2] ¦ 0.0.0.0 ¦  ¦ localhost localhost ¦ \
        localhost,evil.example ¦ localhost:80:80 ¦ localhost:x ¦ evil.example:localhost";
    for host in foreign.split(" ¦ ") {
        let field = format!("Host: {host}");
        assert_eq!(ping_status(&server, &[&field]).await, 403, "{host:?}");
        let origin = format!("Origin: http://{host}");
        let refused = ping_status(&server, &["Host: localhost", &origin]).await;
        assert_eq!(refused, 403, "{origin:?}");
    }
    for fields in [
        &[][..],
        &["Host: localhost", "Host: localhost"],
        &["Host: localhost", "Host: evil.example"],
        &["Host: localhost", "Origin: null"],
        &["Host: localhost", "Origin: file://localhost"],
        &["Host: localhost", "Origin: localhost"],
        &["Host: localhost", "Origin: HTTP://localhost"],
        &["Host: localhost", "Origin: http://localhost/"],
        &[
            "Host: localhost",
            "Origin: http://localhost",
            "Origin: http://localhost",
        ],
        &[
            "Host: localhost",
            "Origin: http://localhost",
            "Origin: http://evil.example",
        ],
    ] {
        assert_eq!(ping_status(&server, fields).await, 403, "{fields:?}");
    }
}

#[tokio::test]
async fn allowed_hosts_are_accepted() {
    let env = [("MCP_ALLOWED_HOSTS", "n8n-mcp,Agents.example:443,fe80::1")];
    let server = Server::start(FIXTURE, &env).await;
    for host in "n8n-mcp:3456 N8N-MCP agents.example [fe80::1]:1 localhost".split(' ') {
        let fields = [format!("Host: {host}"), format!("Origin: https://{host}")];
        let fields = fields.each_ref().map(String::as_str);
        assert_eq!(ping_status(&server, &fields).await, 200, "{host}");
    }
    // The latter is not the address fe80::1 with a port.
    for fields in [
        &["Host: evil.n8n-mcp"][..],
        &["Host: fe80::1:2"],
        &["Host: n8n-mcp", "Origin: null"],
    ] {
        assert_eq!(ping_status(&server, fields).await, 403, "{fields:?}");
    }

    let server = Server::with_args(FIXTURE, &["--allowed-hosts", "*"], &[]).await;
    assert_eq!(ping_status(&server, &["Host: evil.example"]).await, 200);
}
