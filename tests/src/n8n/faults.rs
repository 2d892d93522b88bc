//! Against an n8n that misbehaves, with faults that the real one does not show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{SERVER, assert_refused, done};
use crate::harness::{FakeService, Request, Response, Server, assert_contains, assert_lacks};

async fn server(url: &str) -> Server {
    Server::start(SERVER, &[("N8N_URL", url), ("N8N_API_KEY", "SECRET-KEY")]).await
}

/// A workflow with one active webhook, `POST /webhook/hook`, whose executions are not saved.
fn workflow() -> Value {
    let settings = json!({"saveDataSuccessExecution": "none", "saveDataErrorExecution": "none"});
    let parameters = json!({"path": "hook", "httpMethod": "POST", "responseMode": "lastNode"});
    let nodes = json!([
        {"name": "Webhook", "type": "n8n-nodes-base.webhook", "webhookId": "id", "parameters": parameters},
    ]);
    json!({"id": "w", "name": "W", "active": true, "connections": {}, "settings": settings,
        "nodes": nodes, "activeVersion": {"nodes": nodes}})
}

/// An n8n without executions, whose webhook answers as `hook` says.
async fn fake(hook: impl Fn(&Request) -> Response + Send + Sync + 'static) -> FakeService {
    FakeService::start(move |request| match request.target.split('?').next() {
        Some("/api/v1/workflows/w") => Response::json(200, &workflow()),
        Some("/webhook/hook") => hook(request),
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await
}

fn starts(fake: &FakeService) -> usize {
    let requests = fake.requests();
    requests
        .iter()
        .filter(|request| request.target == "/webhook/hook")
        .count()
}

#[tokio::test]
async fn bad_answers_are_explained() {
    let message = |text: &str| json!({"message": text, "stacktrace": "at /srv/SECRET-BODY"});
    let unlicensed = "Your license does not allow for feat:x";
    for (answer, part) in [
        (
            Response::json(401, &message("Unauthorized")),
            "refuses the API key",
        ),
        (
            Response::json(403, &message("Forbidden")),
            "lacks the scope",
        ),
        (Response::json(403, &message(unlicensed)), "licence"),
        (Response::html(404), "no n8n API"),
        (
            Response::json(429, &message("SECRET-BODY")),
            "limits the rate of requests",
        ),
        (Response::json(500, &message("SECRET-BODY")), "HTTP 500"),
        (Response::html(503), "not ready"),
        (Response::html(302), "redirects"),
        (Response::html(200), "does not answer like n8n's API"),
        (
            Response::json(200, &json!({"data": "SECRET-BODY"})),
            "does not answer like n8n's API",
        ),
        (
            Response::Http(200, "application/json", vec![b' '; 17 << 20].into()),
            "larger than 16 MiB",
        ),
    ] {
        let fake = FakeService::start(move |_| answer.clone()).await;
        let server = server(&fake.url).await;
        let client = server.client().await;
        for (tool, arguments) in [
            ("list_workflows", json!({})),
            ("get_execution", json!({"execution_id": "1"})),
            ("run_workflow", json!({"workflow_id": "w"})),
        ] {
            let message = assert_refused(&client, tool, arguments, part).await;
            assert_lacks(&message, "SECRET");
            assert_lacks(&message, "/srv");
        }
        server.wait_for_status("degraded").await;
        assert!(!server.log().contains("SECRET-KEY"));
    }
}

#[tokio::test]
async fn truncated_and_endless_answers_are_distinguished() {
    for (answer, part) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":",
            "closed the connection",
        ),
        ("", "closed the connection"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "larger than 16 MiB",
        ),
    ] {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = socket.accept().await {
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
                    while answer.contains("chunked")
                        && stream.write_all(chunk.as_bytes()).await.is_ok()
                    {}
                });
            }
        });
        let server = server(&url).await;
        assert_refused(&server.client().await, "list_workflows", json!({}), part).await;
        task.abort();
    }
}

#[tokio::test]
async fn silent_service_times_out() {
    let fake = FakeService::start(|_| Response::Hang).await;
    let server = server(&fake.url).await;
    assert_refused(
        &server.client().await,
        "list_workflows",
        json!({}),
        "did not answer within 10 s",
    )
    .await;
    server.wait_for_status("degraded").await;
}

#[tokio::test]
async fn service_that_recovers_is_used_again() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let server = server(&format!("http://user:SECRET@{address}/n8n/")).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    let message = assert_refused(
        &client,
        "list_workflows",
        json!({}),
        &format!("http://{address}/n8n cannot be reached"),
    )
    .await;
    assert_contains(&message, "N8N_URL");
    assert_lacks(&message, "SECRET");

    let socket = TcpListener::bind(address).await.unwrap();
    let asked = Arc::new(AtomicBool::new(false));
    let prefixed = Arc::clone(&asked);
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = socket.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            prefixed.fetch_or(
                request.starts_with("GET /n8n/api/v1/workflows?"),
                Ordering::Relaxed,
            );
            let body = r#"{"data":[]}"#;
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .unwrap();
        }
    });
    assert_eq!(
        done(&client, "list_workflows", json!({})).await,
        json!({"workflows": []})
    );
    assert!(asked.load(Ordering::Relaxed));
    server.wait_for_status("online").await;
    assert!(!server.log().contains("SECRET"), "{}", server.log());
    task.abort();
}

#[tokio::test]
async fn key_may_be_written_later() {
    let fake = FakeService::start(|request| {
        let right = request
            .headers
            .get("x-n8n-api-key")
            .is_some_and(|key| key == "new");
        let status = if right { 200 } else { 401 };
        Response::json(status, &json!({"data": [], "message": "Unauthorized"}))
    })
    .await;
    let server = Server::start(SERVER, &[("N8N_URL", &fake.url)]).await;
    let message = assert_refused(
        &server.client().await,
        "list_workflows",
        json!({}),
        "No API key",
    )
    .await;
    assert_contains(&message, "N8N_API_KEY");
    assert!(fake.requests().is_empty());

    let file = std::env::temp_dir().join(format!("n8n-key-{}", uuid::Uuid::new_v4()));
    let env = [
        ("N8N_URL", fake.url.as_str()),
        ("N8N_API_KEY_FILE", file.to_str().unwrap()),
    ];
    let server = Server::start(SERVER, &env).await;
    let client = server.client().await;
    let message = assert_refused(&client, "list_workflows", json!({}), "N8N_API_KEY_FILE").await;
    assert!(!message.contains(file.to_str().unwrap()));
    std::fs::write(&file, "old\n").unwrap();
    assert_refused(&client, "list_workflows", json!({}), "refuses the API key").await;
    std::fs::write(&file, "new\n").unwrap();
    done(&client, "list_workflows", json!({})).await;
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn webhook_is_called_once_whatever_it_answers() {
    for (answer, part) in [
        (
            Response::Http(403, "text/plain", "Authorization data is wrong!".into()),
            "asks for authentication",
        ),
        (Response::html(404), "N8N_WEBHOOK_URL"),
        (Response::html(429), "busy or not ready"),
        (Response::html(503), "busy or not ready"),
        (Response::html(302), "redirects"),
    ] {
        let fake = fake(move |_| answer.clone()).await;
        let client = server(&fake.url).await;
        let client = client.client().await;
        let message =
            assert_refused(&client, "run_workflow", json!({"workflow_id": "w"}), part).await;
        assert_lacks(&message, "SECRET");
        assert_eq!(starts(&fake), 1);
    }
    let fake = fake(|_| Response::json(500, &json!({"message": "Error in workflow"}))).await;
    let server = server(&fake.url).await;
    let ran = done!(server.client().await, "run_workflow", {"workflow_id": "w"});
    assert_eq!(ran["status"], "failed", "{ran}");
    assert_eq!(ran.get("execution_id"), None);
    assert_eq!(starts(&fake), 1);
}

#[tokio::test]
async fn failed_deletion_is_retried() {
    let tries = AtomicUsize::new(0);
    let fake = FakeService::start(move |request| match request.method.as_str() {
        "DELETE" => match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Response::json(500, &json!({"message": "Internal server error"})),
            // It had got further than its answer.
            _ => Response::json(404, &json!({"message": "Not Found"})),
        },
        _ => Response::json(200, &workflow()),
    })
    .await;
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
    let client = server.client().await;
    let deleted = done!(client, "delete_workflow", {"workflow_id": "w", "confirm": "w"});
    assert_eq!(deleted["deleted"], "w");
}

#[tokio::test]
async fn webhook_without_reply_is_called_once() {
    let silent = fake(|_| Response::Hang).await;
    let server = server(&silent.url).await;
    let client = server.client().await;
    let ran = done!(client, "run_workflow", {"workflow_id": "w", "wait_seconds": 1});
    assert_eq!(ran["status"], "unknown", "{ran}");
    assert_eq!(ran.get("execution_id"), None);
    assert!(ran["note"].is_string(), "{ran}");
    assert_eq!(starts(&silent), 1);

    let hooks = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", hooks.local_addr().unwrap());
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = hooks.accept().await {
            if stream
                .read(&mut [0; 4096])
                .await
                .is_ok_and(|length| length > 0)
            {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let env = [
        ("N8N_URL", silent.url.as_str()),
        ("N8N_API_KEY", "k"),
        ("N8N_WEBHOOK_URL", &url),
    ];
    let server = Server::start(SERVER, &env).await;
    let client = server.client().await;
    assert_refused(
        &client,
        "run_workflow",
        json!({"workflow_id": "w"}),
        "was not repeated",
    )
    .await;
    assert_eq!(called.load(Ordering::Relaxed), 1);
    task.abort();
    let _ = task.await;
    assert_refused(
        &client,
        "run_workflow",
        json!({"workflow_id": "w"}),
        "nothing was started",
    )
    .await;
}

#[tokio::test]
async fn only_a_pending_activation_is_retried() {
    let unknown =
        json!({"code": 404, "message": "The requested webhook \"POST hook\" is not registered."});
    let refusals = AtomicUsize::new(2);
    let body = unknown.clone();
    let late = fake(move |_| {
        let refuse =
            refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match refuse {
            Ok(_) => Response::json(404, &body),
            Err(_) => Response::json(200, &json!({"result": 1})),
        }
    })
    .await;
    let client = server(&late.url).await;
    let client = client.client().await;
    let ran = done(&client, "run_workflow", json!({"workflow_id": "w"})).await;
    assert_eq!(
        (&ran["status"], &ran["output"]),
        (&json!("completed"), &json!({"result": 1}))
    );
    assert_eq!(starts(&late), 3);

    let never = fake(move |_| Response::json(404, &unknown)).await;
    let client = server(&never.url).await;
    let client = client.client().await;
    assert_refused(
        &client,
        "run_workflow",
        json!({"workflow_id": "w"}),
        "does not know the production URL",
    )
    .await;
}
