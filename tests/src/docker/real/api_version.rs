//! The version of the engine's API in each path, with an engine that answers as API 1.54 does: a real one behind
//! a proxy that changes the numbers and the report about the disk.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

use crate::docker::lab::{Lab, lab};
use crate::docker::proxy::{listen, unversioned};
use crate::docker::{SERVER, call, calls_of, succeed};
use crate::harness::Server;

/// The newest version of the API, and the oldest one that is accepted.
const NEWEST: u32 = 54;
const OLDEST: u32 = 44;

/// A real engine that says it is of API 1.54, on a free port of loopback.
struct NewEngine {
    host: String,
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

struct State {
    socket: String,
    /// The version of the real engine: `1.41`.
    real: String,
    /// False while the real engine is reached as it is.
    is_new: AtomicBool,
    /// The requests that were refused.
    refused: Mutex<Vec<String>>,
}

impl NewEngine {
    async fn start(lab: &Lab) -> Self {
        let version = lab.docker.version().await.unwrap();
        let state = Arc::new(State {
            socket: lab.host.strip_prefix("unix://").unwrap().to_owned(),
            real: version.api_version.unwrap(),
            is_new: AtomicBool::new(true),
            refused: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let (host, task) = listen(move |client| {
            let state = Arc::clone(&shared);
            async move { state.forward(client).await }
        })
        .await;
        Self {
            host,
            state,
            _task: task,
        }
    }

    fn refused(&self) -> Vec<String> {
        self.state.refused.lock().unwrap().clone()
    }
}

impl State {
    /// Serves one connection, which has one request.
    async fn forward(&self, mut client: TcpStream) {
        let Some((head, rest)) = read_head(&mut client).await else {
            return;
        };
        let mut engine = UnixStream::connect(&self.socket).await.unwrap();
        if !self.is_new.load(Relaxed) {
            engine.write_all(head.as_bytes()).await.unwrap();
            engine.write_all(&rest).await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut engine).await;
            return;
        }
        let target = head.split(' ').nth(1).unwrap();
        let path = unversioned(target);
        let minor = target
            .strip_prefix("/v1.")
            .and_then(|rest| rest.split('/').next());
        let minor = minor.and_then(|minor| minor.parse::<u32>().ok());
        let needs_none = ["/_ping", "/version"].contains(&target);
        if !needs_none && !minor.is_some_and(|minor| (OLDEST..=NEWEST).contains(&minor)) {
            self.refused.lock().unwrap().push(target.to_owned());
            let message = "client version is too old. Minimum supported API version is 1.44";
            let _ = answer(&mut client, "400 Bad Request", &json!({"message": message})).await;
            return;
        }
        if path == "/system/df" {
            let _ = answer(&mut client, "200 OK", &sums()).await;
            return;
        }
        let asked = match needs_none {
            true => head.clone(),
            false => head.replacen(target, &format!("/v{}{path}", self.real), 1),
        };
        engine.write_all(asked.as_bytes()).await.unwrap();
        engine.write_all(&rest).await.unwrap();
        if target == "/version" {
            let version = json!({"Version": "30.0.0", "ApiVersion": format!("1.{NEWEST}"),
                "MinAPIVersion": format!("1.{OLDEST}"), "Components": []});
            let _ = answer(&mut client, "200 OK", &version).await;
            return;
        }
        let (mut reader, mut writer) = client.split();
        let (mut from_engine, mut to_engine) = engine.split();
        let upload = async {
            let _ = tokio::io::copy(&mut reader, &mut to_engine).await;
            let _ = to_engine.shutdown().await;
        };
        let download = async {
            let Some((head, rest)) = read_head(&mut from_engine).await else {
                return;
            };
            let real = format!("Api-Version: {}", self.real);
            let head = head.replacen(&real, &format!("Api-Version: 1.{NEWEST}"), 1);
            let _ = writer.write_all(head.as_bytes()).await;
            let _ = writer.write_all(&rest).await;
            let _ = tokio::io::copy(&mut from_engine, &mut writer).await;
            let _ = writer.shutdown().await;
        };
        tokio::join!(upload, download);
    }
}

/// The head of a request or a reply, and what was read after it.
async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).unwrap(), rest));
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn answer(client: &mut TcpStream, status: &str, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nApi-Version: 1.{NEWEST}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}

/// The report about the disk of API 1.54: sums only.
fn sums() -> Value {
    let sum = |count: u64| json!({"TotalCount": count, "ActiveCount": 1, "TotalSize": count * 10, "Reclaimable": count});
    json!({"ImageUsage": sum(2), "ContainerUsage": sum(3), "VolumeUsage": sum(4), "BuildCacheUsage": sum(5)})
}

/// A call of each kind of request; the last one ends with an error, that there is no such registry.
const CALLS: &str = r#"
list_containers | {"all": true}
get_container | {"container": "WEB", "sections": ["processes", "changes"]}
get_container_logs | {"container": "WEB", "grep": "hello"}
get_container_logs | {"container": "WEB", "tail": 5, "until_match": "hello"}
get_container_stats | {"container": "WEB"}
execute_command | {"container": "WEB", "command": ["echo", "hi"]}
copy_to_container | {"container": "WEB", "path": "/x", "text": "1"}
copy_from_container | {"container": "WEB", "path": "/x"}
update_container | {"container": "WEB", "paused": true}
update_container | {"container": "WEB", "paused": false}
restart_container | {"container": "WEB", "timeout_seconds": 0}
update_container | {"container": "WEB", "memory_mb": 64}
diagnose_container | {"container": "WEB"}
kill_container | {"container": "WEB", "confirm": "WEB"}
wait_container | {"container": "WEB"}
start_container | {"container": "WEB"}
create_container | {"image": "busybox:test", "name": "MADE", "command": ["sleep", "600"]}
stop_container | {"container": "MADE", "timeout_seconds": 0}
recreate_container | {"container": "MADE", "confirm": "MADE", "changes": {"env": {"A": "b"}}}
create_network | {"network": "MADE"}
connect_network | {"network": "MADE", "container": "WEB"}
list_networks | {"network": "MADE"}
connect_network | {"network": "MADE", "container": "WEB", "disconnect": true, "confirm": "WEB"}
remove_network | {"network": "MADE", "confirm": "MADE"}
create_volume | {"volume": "MADE"}
list_volumes | {"volume": "MADE"}
remove_volume | {"volume": "MADE", "confirm": "MADE"}
tag_image | {"image": "busybox:test", "new_name": "MADE:1"}
tag_image | {"image": "MADE:1", "new_name": "MADE:2"}
list_images | {"image": "MADE:2"}
list_images | {}
remove_image | {"image": "MADE:2", "confirm": "MADE:2"}
remove_image | {"image": "MADE:1", "confirm": "MADE:1"}
list_events | {"name": "WEB"}
list_compose_projects | {}
diagnose_host | {}
prune | {"what": "containers"}
pull_image | {"image": "127.0.0.1:7/absent:1"}
"#;

#[tokio::test]
async fn requests_name_the_version_of_their_engine() {
    let Some(mut lab) = lab().await else { return };
    let engine = NewEngine::start(&lab).await;
    let env = [
        ("DOCKER_HOST", &*engine.host),
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
    ];
    let server = Server::start(SERVER, &env).await;
    let web = lab.run_script("web", "echo hello; sleep 600").await;
    let made = lab.adopt("made");
    for (tool, arguments) in calls_of(CALLS, &[("WEB", &web), ("MADE", &made)]) {
        let result = call(&server, tool, arguments).await;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        match tool {
            "pull_image" => assert!(text.contains("cannot reach the registry"), "{result}"),
            _ => assert_eq!(result["isError"], false, "{tool}: {result}"),
        }
        assert_eq!(engine.refused(), Vec::<String>::new(), "{tool}");
    }
    check_disk_usage(&server).await;
}

/// Disk usage has the sums of the newest engines.
async fn check_disk_usage(server: &Server) {
    let info = succeed(server, "get_system_info", json!({"disk_usage": true})).await;
    assert_eq!(info["api_version"], format!("1.{NEWEST}"));
    let share = |count: u64| json!({"count": count, "in_use": 1, "size_bytes": count * 10, "reclaimable_bytes": count});
    let expected = json!({"images": share(2), "containers": share(3), "volumes": share(4), "build_cache": share(5)});
    assert_eq!(info["disk"], expected);
}

/// The engine was replaced by a newer one, and then by an older one: no call notices.
#[tokio::test]
async fn version_is_that_of_the_engine_which_listens_now() {
    let Some(mut lab) = lab().await else { return };
    let engine = NewEngine::start(&lab).await;
    let web = lab.run("web", &["sleep", "600"], json!({})).await;
    let env = [("DOCKER_HOST", &*engine.host), ("MCP_TOOLSETS", "all")];
    let server = Server::start(SERVER, &env).await;
    for is_new in [false, true, false] {
        engine.state.is_new.store(is_new, Relaxed);
        for (tool, arguments) in [
            ("get_container", json!({"container": web})),
            (
                "update_container",
                json!({"container": web, "memory_mb": 64}),
            ),
            ("list_containers", json!({"name": web})),
        ] {
            let result = call(&server, tool, arguments).await;
            assert_eq!(result["isError"], false, "{is_new} {tool}: {result}");
        }
    }
}
