//! Against an n8n that misbehaves, with faults that the real one does not show; and servers that start while n8n is
//! not usable, report the reason, and recover by themselves.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{SERVER, assert_refused, call, done, rows, server_with_all};
use crate::harness::{
    FakeService, Request, Response, Server, assert_contains, assert_lacks, http_client, wait_until,
};

async fn server(url: &str) -> Server {
    Server::start(SERVER, &[("N8N_URL", url), ("N8N_API_KEY", "SECRET-KEY")]).await
}

/// A workflow with one active webhook, `POST /webhook/hook`, whose executions are not saved.
fn workflow() -> Value {
    workflow_with(&json!("POST"))
}

/// The same with these methods.
fn workflow_with(methods: &Value) -> Value {
    let settings = json!({"saveDataSuccessExecution": "none", "saveDataErrorExecution": "none"});
    let parameters = json!({"path": "hook", "httpMethod": methods, "responseMode": "lastNode"});
    let nodes = json!([
        {"name": "Webhook", "type": "n8n-nodes-base.webhook", "webhookId": "id", "parameters": parameters},
    ]);
    json!({"id": "w", "name": "W", "active": true, "connections": {}, "settings": settings,
        "nodes": nodes, "activeVersion": {"nodes": nodes}})
}

/// An n8n without executions, whose webhook answers as `hook` says.
async fn fake(hook: impl Fn(&Request) -> Response + Send + Sync + 'static) -> FakeService {
    fake_of(workflow(), hook).await
}

async fn fake_of(
    workflow: Value,
    hook: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> FakeService {
    FakeService::start(move |request| match request.target.split('?').next() {
        Some("/api/v1/workflows/w") => Response::json(200, &workflow),
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

/// Status, n8n's message or another body, and a part of the error.
const BAD_ANSWERS: &str = "\
401 | Unauthorized | refuses the API key
403 | Forbidden | lacks the scope
403 | Your license does not allow for feat:x | licence
404 | PAGE | no n8n API
429 | SECRET-BODY | limits the rate of requests
500 | SECRET-BODY | HTTP 500
503 | PAGE | not ready
302 | PAGE | redirects
200 | PAGE | does not answer like n8n's API: expected value
200 | SECRET-BODY | does not answer like n8n's API: missing field
200 | LARGE | larger than 16 MiB
";

#[tokio::test]
async fn bad_answers_are_explained() {
    for row in rows(BAD_ANSWERS) {
        let [status, body, part] = row.try_into().unwrap();
        let status = status.parse().unwrap();
        let answer = match body {
            "PAGE" => Response::html(status),
            "LARGE" => Response::Http(status, "application/json", vec![b' '; 17 << 20].into()),
            text => Response::json(
                status,
                &json!({"message": text, "stacktrace": "at /srv/SECRET-BODY"}),
            ),
        };
        let is_repaired = Arc::new(AtomicBool::new(false));
        let repaired = Arc::clone(&is_repaired);
        let fake = FakeService::start(move |_| match repaired.load(Ordering::Relaxed) {
            true => Response::json(200, &json!({"data": [], "nextCursor": null})),
            false => answer.clone(),
        })
        .await;
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
        assert_degraded(&server, part).await;
        assert!(!server.log().contains("SECRET-KEY"));
        is_repaired.store(true, Ordering::Relaxed);
        assert_online(&server).await;
    }
}

#[tokio::test]
async fn truncated_endless_and_missing_answers_are_distinguished() {
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
    let silent = FakeService::start(|_| Response::Hang).await;
    let server = server(&silent.url).await;
    let refused = call(&server.client().await, "list_workflows", json!({})).await;
    assert!(refused.is_error, "{}", refused.text());
    assert_contains(&refused.text(), "did not answer within 20 s");
    server.wait_for_status("degraded").await;
}

#[tokio::test]
async fn address_with_a_user_and_a_prefix_is_used_and_shown_without_the_user() {
    // Nobody listens there.
    let server = server("http://user:SECRET@127.0.0.1:1/n8n/").await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    let part = "http://127.0.0.1:1/n8n cannot be reached: the connection was refused";
    let message = refused!(client, "list_workflows", {}, part);
    assert_contains(&message, "N8N_URL");
    assert_lacks(&message, "SECRET");

    assert!(!server.log().contains("SECRET"), "{}", server.log());
    let page = json!({"data": [], "nextCursor": null});
    let fake = FakeService::start(move |_| Response::json(200, &page)).await;
    let server = self::server(&format!("{}/n8n/", fake.url)).await;
    done(&server.client().await, "list_workflows", json!({})).await;
    let requests = fake.requests();
    let mut targets = requests.iter().map(|request| &request.target);
    assert!(targets.all(|target| target.starts_with("/n8n/api/v1/")));
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
    let message = refused!(server.client().await, "list_workflows", {}, "No API key");
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
    // The answers of a real one are those of running.rs.
    let pages =
        [403, 404, 429, 503, 302].map(|status| (Response::html(status), "may have run or not"));
    for (answer, part) in pages
        .into_iter()
        .chain([(Response::Cut, "was not repeated")])
    {
        let fake = fake(move |_| answer.clone()).await;
        let server = server(&fake.url).await;
        let message = refused!(server.client().await, "run_workflow", {"workflow_id": "w"}, part);
        assert_lacks(&message, "SECRET");
        assert_eq!(starts(&fake), 1);
    }
    let failure = Response::json(500, &json!({"message": "Error in workflow"}));
    for (answer, status) in [(failure, "failed"), (Response::Hang, "unknown")] {
        let fake = fake(move |_| answer.clone()).await;
        let server = server(&fake.url).await;
        let client = server.client().await;
        let ran = done!(client, "run_workflow", {"workflow_id": "w", "wait_seconds": 1});
        assert_eq!(ran["status"], status, "{ran}");
        assert_eq!(ran.get("execution_id"), None);
        assert!(ran["note"].is_string(), "{ran}");
        assert_eq!(starts(&fake), 1);
    }
    let fake = fake(|_| Response::Hang).await;
    // Nobody listens there.
    let hooks = ("N8N_WEBHOOK_URL", "http://127.0.0.1:1");
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k"), hooks];
    let server = Server::start(SERVER, &env).await;
    refused!(server.client().await, "run_workflow", {"workflow_id": "w"}, "nothing was started");
}

/// n8n fails once as it lists the executions after the run: that is no reason to lose the reply.
#[tokio::test]
async fn failed_search_for_an_execution_is_repeated() {
    let (has_run, failures) = (AtomicBool::new(false), AtomicUsize::new(0));
    let fake = FakeService::start(move |request| match request.target.split('?').next() {
        Some("/api/v1/workflows/w") => Response::json(200, &workflow()),
        Some("/webhook/hook") => {
            has_run.store(true, Ordering::Relaxed);
            Response::json(200, &json!({"result": 1}))
        }
        Some("/api/v1/executions")
            if has_run.load(Ordering::Relaxed) && failures.fetch_add(1, Ordering::Relaxed) == 0 =>
        {
            Response::html(500)
        }
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let server = server(&fake.url).await;
    let ran = done!(server.client().await, "run_workflow", {"workflow_id": "w"});
    assert_has!(ran, {"status": "completed", "output": {"result": 1}});
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
    let server = server_with_all(&fake).await;
    let client = server.client().await;
    let deleted = done!(client, "delete_workflow", {"workflow_id": "w", "confirm": "w"});
    assert_eq!(deleted["deleted"], "w");
}

/// The methods of a webhook, and n8n's answers to a POST of it: it names the request in those before an activation has
/// reached all of its parts, and registers one method after the other.
const UNREGISTERED: &str = r#"
POST | pending | The requested webhook "POST hook" is not registered.
POST | pending | Published version not found for workflow with id "w"
POST | pending | OTHER POST request?
PUT GET POST | pending | OTHER PUT or GET request?
POST | not | The requested webhook "POST other" is not registered.
POST | not | Active version not found for workflow with id "w2"
POST | not | OTHER GET request?
PUT GET POST | not | OTHER PUT or DELETE request?
"#;

#[tokio::test]
async fn only_a_pending_activation_is_retried() {
    let other = "This webhook is not registered for POST requests. Did you mean to make a";
    let not_found = |message: &str| Response::json(404, &json!({"code": 404, "message": message}));
    for row in rows(UNREGISTERED) {
        let [methods, state, message] = row.try_into().unwrap();
        let methods = json!(methods.split(' ').collect::<Vec<_>>());
        let message = message.replace("OTHER", other);
        let (refusals, refused) = (AtomicUsize::new(2), not_found(&message));
        let late = fake_of(workflow_with(&methods), move |_| {
            let left = |n: usize| n.checked_sub(1);
            match refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
                Ok(_) => refused.clone(),
                Err(_) => Response::json(200, &json!({"result": 1})),
            }
        })
        .await;
        let server = server(&late.url).await;
        let client = server.client().await;
        if state == "pending" {
            let ran = done!(client, "run_workflow", {"workflow_id": "w"});
            assert_has!(ran, {"status": "completed", "output": {"result": 1}});
            assert_eq!(starts(&late), 3);
        } else {
            refused!(client, "run_workflow", {"workflow_id": "w"}, "N8N_WEBHOOK_URL");
            assert_eq!(starts(&late), 1, "{message}");
        }
    }
    let never = not_found("The requested webhook \"POST hook\" is not registered.");
    let never = fake(move |_| never.clone()).await;
    let server = server(&never.url).await;
    let part = "does not know the production URL";
    refused!(server.client().await, "run_workflow", {"workflow_id": "w"}, part);
}

/// n8n answers a publication before it runs the new version; here it does so a second later.
#[tokio::test]
async fn run_waits_for_the_version_that_was_just_published() {
    let published = Mutex::new(None::<Instant>);
    let fake = FakeService::start(move |request| match request.target.split('?').next() {
        Some("/api/v1/workflows/w") => Response::json(200, &workflow()),
        Some("/api/v1/workflows/w/activate") => {
            *published.lock().unwrap() = Some(Instant::now());
            Response::json(200, &workflow())
        }
        Some("/webhook/hook") => {
            let since = published.lock().unwrap().map(|at| at.elapsed());
            let is_new = since.is_some_and(|since| since.as_secs() >= 1);
            Response::json(200, &json!({"result": if is_new { "new" } else { "old" }}))
        }
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let server = server_with_all(&fake).await;
    let client = server.client().await;
    done!(client, "activate_workflow", {"workflow_id": "w"});
    let ran = done!(client, "run_workflow", {"workflow_id": "w"});
    assert_has!(ran, {"status": "completed", "output": {"result": "new"}});
    assert_eq!(starts(&fake), 1);
}

/// Waits until the server is degraded for this reason; its calls fail for it, too.
pub(super) async fn assert_degraded(server: &Server, part: &str) {
    let url = server.url.replace("/mcp", "/readyz");
    wait_until("the reason", async || {
        let response = http_client().get(&url).send().await.unwrap();
        let said: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let reason = said["reason"].as_str().unwrap_or_default();
        said["status"] == "degraded" && reason.contains(part)
    })
    .await;
    let client = server.client().await;
    assert_refused(&client, "list_workflows", json!({}), part).await;
}

pub(super) async fn assert_online(server: &Server) {
    server.wait_for_status("online").await;
    let client = server.client().await;
    done(&client, "list_workflows", json!({"limit": 1})).await;
}

/// It answers like n8n 2 where their APIs are the same.
#[tokio::test]
async fn n8n_1_is_told_by_name_until_it_is_replaced() {
    let is_updated = Arc::new(AtomicBool::new(false));
    let updated = Arc::clone(&is_updated);
    let fake = FakeService::start(move |request| match request.target.as_str() {
        "/api/v1/discover" if !updated.load(Ordering::Relaxed) => {
            Response::json(404, &json!({"message": "not found"}))
        }
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    let server = Server::start(SERVER, &env).await;
    assert_degraded(&server, "is n8n 1, and this server needs n8n 2").await;
    let run = json!({"workflow_id": "w"});
    assert_refused(&server.client().await, "run_workflow", run, "update n8n").await;
    is_updated.store(true, Ordering::Relaxed);
    assert_online(&server).await;
}
