//! An engine that is down, slow, faulty, or not an engine.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::proxy::listen;
use crate::docker::prelude::*;

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

mod real {
    use super::*;
    use crate::harness::real::docker;

    #[tokio::test]
    async fn engine_that_is_down_is_reported_and_recovers() {
        let Some(host) = docker() else { return };
        let dir = Folder::new();
        let socket = dir.path().join("docker.sock");
        let server = in_front_of(&format!("unix://{}", socket.display()), &[]).await;
        server.wait_for_status("degraded").await;
        let down = fail!(server, "list_containers", {});
        assert_contains(&down, "docker.sock");
        assert_contains(&down, "Start the engine");
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
    fails_with!(server, "list_containers", {}, &host, "DOCKER_HOST");
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
            assert_contains(&message, expected);
            assert_lacks(&message, "SECRET-BODY");
            assert_lacks(&message, "<");
        }
        server.wait_for_status("degraded").await;
    }
}

#[tokio::test]
async fn incomplete_and_slow_replies_are_errors() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[{\"Id\":\"abc\"";
    let odd = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[{]";
    // No head, and a body that does not go on.
    let slow = [
        &b""[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[",
    ];
    let broken = [&cut[..], b"", odd, b"SSH-2.0-x\r\n"];
    let broken = broken.map(|reply| {
        (
            reply,
            true,
            "60",
            "incomplete, or it is not a Docker Engine",
        )
    });
    let slow = slow.map(|reply| (reply, false, "1", "did not answer within 1 s"));
    for (reply, then_close, seconds, expected) in broken.into_iter().chain(slow) {
        let (host, _task) = bytes(reply, then_close).await;
        let server = in_front_of(&host, &[("DOCKER_CLIENT_TIMEOUT", seconds)]).await;
        fails_with!(server, "list_containers", {}, expected);
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
const CHANGES: &str = r#"
restart_container | {"container": "web"} | ! may still happen: check with get_container
remove_container | {"container": "web", "force": true, "confirm": "web"} | ! may still happen: check with get_container
copy_to_container | {"container": "web", "path": "/x", "text": "y"} | ! cut off, with its old content lost
create_network | {"network": "net"} | ! may still happen: check with list_networks
create_volume | {"volume": "data"} | ! may still happen: check with list_volumes
pull_image | {"image": "busybox:1"} | ! may have happened all the same
"#;

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
    steps(&server, CHANGES, &[]).await;
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

/// Of two replacements that broke off, one is of a container that the rules hide.
#[tokio::test]
async fn broken_replacement_of_a_hidden_container_is_left_alone() {
    let old = ["hidden", "web"].map(|name| {
        let id = format!("{0}{0}", uuid::Uuid::new_v4().simple());
        let kept = format!("/{name}.before-{}", &id[..12]);
        json!({"Id": id, "Name": kept, "Names": [kept], "State": {"Status": "exited"}})
    });
    let [hidden, web] = old
        .each_ref()
        .map(|old| old["Id"].as_str().unwrap().to_owned());
    let id = web.clone();
    let (fake, _server) = with_fake(&[("DOCKER_MCP_DENY", "name=hidden")], move |request| {
        let listed = old
            .each_ref()
            .map(|old| merged(old.clone(), json!({"State": "exited"})));
        match request.target.split('?').next().unwrap() {
            "/version" => Response::json(200, &json!({"Version": "1", "ApiVersion": "1.41"})),
            "/events" => Response::Hang,
            "/containers/json" => Response::json(200, &json!(listed)),
            path if path.ends_with("/rename") => Response::json(200, &json!({})),
            path if path.contains(&id) => Response::json(200, &old[1]),
            _ => Response::json(404, &json!({"message": "No such container"})),
        }
    })
    .await;
    let has_asked = |what: &str| {
        let mut requests = fake.requests().into_iter();
        requests.any(|request| request.target.contains(what))
    };
    let way_back = format!("{web}/rename?name=web");
    wait_until("the way back", async || has_asked(&way_back)).await;
    assert!(!has_asked(&hidden));
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
