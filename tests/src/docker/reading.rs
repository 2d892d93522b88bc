//! `list_containers` and `get_container`.

use serde_json::{Value, json};

use super::lab::lab;
use super::{SERVER, fail, succeed};
use crate::harness::{
    FakeService, Response, Server, assert_ends_with, assert_starts_with, eventually, stdio_client,
};

#[tokio::test]
async fn containers_are_listed() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({
        "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": "shop", "com.docker.compose.service": "web"},
        "ExposedPorts": {"80/tcp": {}, "81/tcp": {}},
        "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    });
    let up = lab.run("up", &["sleep", "600"], more).await;
    let down = lab.create("down", &["true"], json!({})).await;

    let prefix = lab.name("");
    let list = |arguments: Value| {
        let mut arguments = arguments;
        arguments["name"] = json!(prefix);
        succeed(&lab, "list_containers", arguments)
    };
    let running = list(json!({})).await;
    let rows = running["containers"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{running}");
    let row = &rows[0];
    assert_has!(row, {"name": up, "state": "running", "image": "busybox:test", "compose_project": "shop",
        "compose_service": "web"});
    let port = row["ports"][0].as_str().unwrap();
    assert_starts_with(&port, "127.0.0.1:");
    assert_ends_with(&port, "->80/tcp");
    assert_eq!(row["id"].as_str().unwrap().len(), 12);

    // The status says how long ago, so only the names can be compared.
    let names = async || -> Vec<Value> {
        let all = list(json!({"all": true})).await;
        let rows = all["containers"].as_array().unwrap();
        rows.iter().map(|row| row["name"].clone()).collect()
    };
    let all = names().await;
    assert!(all.contains(&json!(up)), "{all:?}");
    assert!(all.contains(&json!(down)), "{all:?}");
    assert_eq!(all, names().await, "the order changes");
    let one = list(json!({"all": true, "limit": 1})).await;
    assert_has!(one, {"total": 2, "omitted": 1});
}

#[tokio::test]
async fn get_container_shows_all_sections() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({
        "Env": ["MODE=test"],
        "WorkingDir": "/srv",
        "User": "1000",
        "Healthcheck": {"Test": ["CMD", "sh", "-c", "echo not yet; exit 1"], "Interval": 100_000_000, "Retries": 1},
        "HostConfig": {
            "Memory": 64 << 20, "NanoCpus": 500_000_000, "PidsLimit": 50,
            "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
            "Tmpfs": {"/scratch": ""}, "Mounts": [{"Type": "bind", "Source": "/etc", "Target": "/data", "ReadOnly": true}],
        },
    });
    let name = lab.run("full", &["sleep", "600"], more).await;
    let get = || succeed(&lab, "get_container", json!({"container": name}));
    let shown = eventually("its bad health", async || {
        Some(get().await).filter(|shown| shown["health"]["status"] == "unhealthy")
    })
    .await;
    assert_has!(shown, {"name": name, "state": {"status": "running"}});
    assert!(shown["state"].get("exit_code").is_none());
    assert_has!(shown, {"health": {"last_probe": {"output": "not yet", "exit_code": 1}},
        "command": "sleep 600"});
    let env = shown["env"].as_array().unwrap();
    assert!(env.contains(&json!("MODE=test")));
    assert_has!(shown, {"working_dir": "/srv", "user": "1000", "restart_policy": "on-failure:3"});
    let limits = json!({"memory_bytes": 64 << 20, "cpus": 0.5, "pids": 50});
    assert_eq!(shown["limits"], limits);
    assert_eq!(shown["mounts"], json!(["/etc -> /data (bind, ro)"]));
    assert!(shown["networks"]["bridge"].is_string());
    assert!(shown.to_string().len() < 2_500, "{shown}");
}

#[tokio::test]
async fn exit_codes_are_explained() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.finish("over", &["sh", "-c", "exit 3"], json!({})).await;
    let shown = succeed(&lab, "get_container", json!({"container": name})).await;
    assert_has!(shown, {"state": {"exit_code": 3, "exit_meaning": "the application's own error"}});
    assert!(shown["state"]["finished_at"].is_string());
}

#[tokio::test]
async fn stdio_returns_structured_content() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("stdio", &["sleep", "600"], json!({})).await;
    let client = stdio_client(SERVER, &[("DOCKER_HOST", &lab.host)]).await;
    assert_eq!(client.list_tools().await.unwrap().len(), 7);
    let arguments = json!({"name": name});
    let result = client.call_tool("list_containers", &arguments).await;
    let structured = result.unwrap().structured_content.unwrap();
    let structured: Value = serde_json::from_str(structured.get()).unwrap();
    assert_eq!(structured["containers"][0]["name"], json!(name));
    let stopped = json!({"container": name, "timeout_seconds": 0});
    let stopped = client.call_tool("stop_container", &stopped).await;
    assert!(!stopped.unwrap().is_error);
    assert_eq!(lab.state(&name).await, "exited");
    client.close().await;
}

/// A fake engine that knows `list` and one container, `web`.
async fn fake(list: Value) -> (FakeService, Server) {
    let fake = FakeService::start(move |request| match request.target.as_str() {
        "/version" => Response::json(200, &json!({"Version": "99", "ApiVersion": "1.99"})),
        path if path.starts_with("/containers/json") => Response::json(200, &list),
        _ => Response::json(404, &json!({"message": "No such container: x"})),
    })
    .await;
    let host = fake.url.replace("http://", "tcp://");
    let server = Server::start(SERVER, &[("DOCKER_HOST", &host)]).await;
    (fake, server)
}

#[tokio::test]
async fn two_hundred_containers_fit_in_16_kb() {
    let row = |number: i64| {
        json!({
            "Id": format!("{number:064x}"), "Names": [format!("/shop-a-rather-long-service-name-{number}")],
            "Image": "registry.example.com/team/service:1.2.3", "Created": 1_700_000_000 + number,
            "State": "running", "Status": "Up 5 minutes (healthy)",
            "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": "shop", "com.docker.compose.service": "service"},
            "Ports": [{"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8000 + number, "Type": "tcp"}],
        })
    };
    let (_fake, server) = fake((0..200).map(row).collect()).await;
    let client = server.client().await;
    let answer = client.call_tool("list_containers", &json!({})).await;
    let answer = answer.unwrap();
    let bytes = answer.raw.get().len();
    assert!(bytes < 16_000, "{bytes}");
    let listed: Value = serde_json::from_str(&answer.text()).unwrap();
    let rows = listed["containers"].as_array().unwrap().len();
    assert!(rows >= 15, "{listed}");
    assert_eq!(listed["omitted"], 200 - rows, "{listed}");
    let next = format!("offset: {rows} ");
    assert!(listed["note"].as_str().unwrap().contains(&next));
    let mut seen = 0;
    while seen < 200 {
        let arguments = json!({"limit": 500, "offset": seen});
        let answer = client.call_tool("list_containers", &arguments).await;
        let answer = answer.unwrap();
        assert!(answer.raw.get().len() < 16_000);
        let page: Value = serde_json::from_str(&answer.text()).unwrap();
        let rows = page["containers"].as_array().unwrap().len();
        assert!(rows > 0, "{page}");
        seen += rows;
    }
    assert_eq!(seen, 200);
}

#[tokio::test]
async fn unknown_members_of_a_newer_engine_do_not_fail_the_list() {
    let list = json!([
        {"Id": "a".repeat(64), "Names": ["/hibernator"], "State": "hibernating", "Status": "Zzz", "Created": 2,
         "Ports": null, "Labels": null, "Health": {"Status": "sleepy"}, "More": [1, {"x": null}]},
        {"Id": "b".repeat(64), "Names": {"what": "is this"}, "Created": "yesterday"},
        {"Id": "c".repeat(64), "Names": ["/old"], "State": "running", "Created": 1},
    ]);
    let (_fake, server) = fake(list).await;
    let listed = succeed(&server, "list_containers", json!({})).await;
    let rows = listed["containers"].as_array().unwrap().iter();
    let states: Vec<_> = rows.map(|row| &row["state"]).collect();
    assert_eq!(states, ["hibernating", "running", "unknown"], "{listed}");
    fails_with!(server, "get_container", {"container": "hibernatro"}, "`hibernator`");
}
