//! An engine that is down, slow, faulty, or not an engine.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::lab::Folder;
use super::proxy::listen;
use super::{SERVER, fail, in_front_of, succeed, with_fake};
use crate::harness::{Response, assert_contains, real};

/// An engine that answers every request with exactly these bytes.
async fn bytes(reply: &'static [u8], then_close: bool) -> (String, AbortOnDropHandle<()>) {
    listen(move |mut stream| async move {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(reply).await;
        if !then_close {
            std::future::pending::<()>().await;
        }
    })
    .await
}

const RUNNING: &str = "ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12";

fn running() -> Value {
    json!({"Id": RUNNING, "Name": "/web", "State": {"Status": "running"}})
}

#[tokio::test]
async fn engine_that_is_down_is_reported_and_recovers() {
    let dir = Folder::new();
    let socket = dir.path().join("docker.sock");
    let server = in_front_of(&format!("unix://{}", socket.display()), &[]).await;
    server.wait_for_status("degraded").await;
    fails_with!(
        server,
        "list_containers",
        {},
        "docker.sock",
        "Start the engine"
    );
    if let Some(host) = real::docker() {
        // The engine "starts".
        std::os::unix::fs::symlink(host.strip_prefix("unix://").unwrap(), &socket).unwrap();
        server.wait_for_status("online").await;
        succeed(&server, "list_containers", json!({})).await;
        // And is down again.
        std::fs::remove_file(&socket).unwrap();
        fails_with!(server, "list_containers", {}, "Start the engine");
    }
}

#[tokio::test]
async fn refused_connection_is_explained() {
    // Nobody else can take the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let host = format!("tcp://{}", socket.local_addr().unwrap());
    let server = in_front_of(&host, &[]).await;
    let message = fail(&server, "list_containers", json!({})).await;
    assert_contains(&message, &host);
    assert_contains(&message, "DOCKER_HOST");
}

#[tokio::test]
async fn engine_errors_are_reported_without_html() {
    let cases: [(Response, &str); 4] = [
        (
            Response::json(500, &json!({"message": "disk full"})),
            "disk full",
        ),
        (Response::html(502), "HTTP status 502"),
        (Response::html(200), "not a Docker Engine"),
        (
            Response::json(403, &json!({"message": "denied by plugin"})),
            "does not allow",
        ),
    ];
    for (response, expected) in cases {
        let (_fake, server) = with_fake(&[], move |_| response.clone()).await;
        for (tool, arguments) in [
            ("list_containers", json!({})),
            ("get_container", json!({"container": "web"})),
            ("stop_container", json!({"container": "web"})),
        ] {
            let message = fail(&server, tool, arguments).await;
            assert!(message.contains(expected), "{message}");
            let has_page = message.contains("SECRET-BODY") || message.contains('<');
            assert!(!has_page, "{message}");
        }
        server.wait_for_status("degraded").await;
    }
}

#[tokio::test]
async fn incomplete_reply_is_an_error() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[{\"Id\":\"abc\"";
    for reply in [
        &cut[..],
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[{]",
        b"SSH-2.0-x\r\n",
    ] {
        let (host, _task) = bytes(reply, true).await;
        let server = in_front_of(&host, &[]).await;
        fails_with!(
            server,
            "list_containers",
            {},
            "incomplete, or it is not a Docker Engine"
        );
    }
}

#[tokio::test]
async fn slow_engine_times_out() {
    // No head, and a body that does not go on.
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[";
    for reply in [&b""[..], head] {
        let (host, _task) = bytes(reply, false).await;
        let server = in_front_of(&host, &[("DOCKER_CLIENT_TIMEOUT", "1")]).await;
        fails_with!(server, "list_containers", {}, "did not answer within 1 s");
    }
}

#[tokio::test]
async fn endless_reply_is_limited() {
    let (_fake, server) = with_fake(&[], |_| {
        Response::Http(200, "application/json", vec![b' '; 50 << 20].into())
    })
    .await;
    fails_with!(server, "get_container", {"container": "web"}, "more than 4 MiB");
}

#[tokio::test]
async fn unconfirmed_stop_is_reported_and_not_repeated() {
    // Longer than the requests before take, even on a busy machine.
    let env = [("DOCKER_CLIENT_TIMEOUT", "20")];
    let (fake, server) = with_fake(&env, |request| match request.method.as_str() {
        "POST" => Response::Hang,
        _ => Response::json(200, &running()),
    })
    .await;
    fails_with!(server, "stop_container", {"container": "web", "timeout_seconds": 0},
        "may still happen", "get_container");
    let requests = fake.requests().into_iter();
    let posts = requests.filter(|request| request.method == "POST");
    let posts: Vec<_> = posts.map(|request| request.target).collect();
    assert_eq!(posts, [format!("/containers/{RUNNING}/stop?t=0")]);
}

/// Changes, and the advice if the connection breaks before the answer.
const CHANGES: [(&str, &str, &str); 6] = [
    (
        "restart_container",
        r#"{"container": "web"}"#,
        "may still happen: check with get_container",
    ),
    (
        "remove_container",
        r#"{"container": "web", "force": true, "confirm": "web"}"#,
        "may still happen: check with get_container",
    ),
    (
        "copy_to_container",
        r#"{"container": "web", "path": "/x", "text": "y"}"#,
        "cut off, with its old content lost",
    ),
    (
        "create_network",
        r#"{"network": "net"}"#,
        "may still happen: check with list_networks",
    ),
    (
        "create_volume",
        r#"{"volume": "data"}"#,
        "may still happen: check with list_volumes",
    ),
    (
        "pull_image",
        r#"{"image": "busybox:1"}"#,
        "may have happened all the same",
    ),
];

#[tokio::test]
async fn change_whose_answer_was_lost_may_have_happened() {
    let (_fake, server) = with_fake(&[], |request| {
        let has = |text: &str| request.target.contains(text);
        match request.method.as_str() {
            "POST" | "PUT" | "DELETE" => Response::Cut,
            "GET" if has("/containers/json") => Response::json(200, &json!([])),
            "GET" if has("/containers/") && has("/json") => Response::json(200, &running()),
            _ => Response::json(404, &json!({"message": "none"})),
        }
    })
    .await;
    for (tool, arguments, expected) in CHANGES {
        let arguments = serde_json::from_str(arguments).unwrap();
        assert_contains(&fail(&server, tool, arguments).await, expected);
    }
}

#[tokio::test]
async fn container_removed_during_a_call_is_not_found() {
    let (_fake, server) = with_fake(&[], |request| match request.method.as_str() {
        "POST" => Response::json(404, &json!({"message": "No such container: web"})),
        _ if request.target.starts_with("/containers/json") => Response::json(200, &json!([])),
        _ => Response::json(200, &running()),
    })
    .await;
    fails_with!(server, "restart_container", {"container": "web"}, "There is no container `web`");
}

#[tokio::test]
async fn invalid_options_prevent_the_start() {
    let dir = Folder::new();
    let misspelt = dir.write("policy.json", r#"{"only_craeted": true}"#);
    for (variable, value, expected) in [
        ("DOCKER_HOST", "/var/run/docker.sock", "unix:///path"),
        (
            "DOCKER_CONTEXT",
            "no-such-context",
            "there is no docker context",
        ),
        ("DOCKER_CLIENT_TIMEOUT", "0", "docker-timeout"),
        ("DOCKER_MCP_POLICY", "/nowhere", "No such file"),
        (
            "DOCKER_MCP_POLICY",
            misspelt.to_str().unwrap(),
            "only_craeted",
        ),
        ("DOCKER_MCP_DENY", "web", "write name=PATTERN"),
    ] {
        let output = tokio::process::Command::new(crate::harness::binary(SERVER))
            .env_clear()
            .env("DOCKER_CONFIG", "/nonexistent")
            .env(variable, value)
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(text.contains(expected), "{text}");
    }
}
