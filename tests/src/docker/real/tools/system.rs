//! The engine itself: its description, its events, its unused objects, and tools that look at many containers.

use super::recreate::locked;
use crate::docker::prelude::*;

#[tokio::test]
async fn the_engine_and_its_events_are_described() {
    let Some(lab) = lab().await else { return };
    lab.sleep("web", json!({})).await;
    let info = succeed(&lab, "get_system_info", json!({})).await;
    assert!(info["running"].as_u64().unwrap() > 0, "{info}");
    assert!(info["disk"].is_null(), "{info}");
    assert!(info["api_version"].as_str().unwrap().starts_with("1."));
    let info = succeed(&lab, "get_system_info", json!({"disk_usage": true})).await;
    let images = &info["disk"]["images"];
    assert!(images["count"].as_u64().unwrap() > 0, "{info}");
    assert!(images["size_bytes"].as_i64().unwrap() > 1_000_000, "{info}");

    // The engine itself remembers few.
    wait_until("the server follows the events", async || {
        let events = succeed!(lab, "list_events", {"limit": 1});
        events["complete_since"].is_string()
    })
    .await;
    let check = json!({"Healthcheck": {"Test": ["CMD-SHELL", "true # canary-11"], "Interval": 100_000_000}});
    let command = ["sh", "-c", "sleep 1; exit 3"];
    let name = lab.finish("eventful", &command, check).await;
    let events = succeed!(lab, "list_events", {"name": name, "kind": "container"});
    let rows = events["events"].as_array().unwrap();
    let actions: Vec<_> = rows.iter().map(|row| &row["action"]).collect();
    assert_eq!(actions[..2], ["create", "start"], "{events}");
    let died = rows.iter().find(|row| row["action"] == "die").unwrap();
    assert_eq!(died["details"]["exitCode"], "3");
    // No runs of the health check, whose command lines may hold secrets.
    assert!(!events.to_string().contains("exec_") && !events.to_string().contains("canary-11"));
    let none = succeed!(lab, "list_events", {"name": name, "until": "1h", "since": "2h"});
    assert_eq!(none["events"], json!([]));
}

#[tokio::test]
async fn prune_removes_exactly_the_preview() {
    let Some(lab) = own_lab().await else { return };
    let ended = lab.finish("ended", &["true"], json!({})).await;
    let never = lab.create("never", &["true"], json!({})).await;
    let running = lab.sleep("running", json!({})).await;
    // A replacement that has not ended may need its old container.
    let old = lab.create("old", &["true"], json!({})).await;
    let id = lab.id(&old).await;
    let _lock = locked(&id);
    let kept = format!("{old}.before-{}", &id[..12]);
    lab.rename(&old, &kept).await;
    let named_like_it = "other.before-0123456789ab";
    let other = lab.create(named_like_it, &["true"], json!({})).await;
    let preview = succeed(&lab, "prune", json!({"what": "containers"})).await;
    assert_eq!(preview["applied"], false);
    let mut items = texts(&preview["items"]);
    items.sort_unstable();
    assert_eq!(items, [&*ended, &*never, &*other]);
    // A container is stopped by somebody else between the question and the answer.
    let mut arguments = json!({"what": "containers", "apply": true});
    let before = call(&lab, "prune", arguments.clone()).await;
    let later = lab.create("later", &["true"], json!({})).await;
    arguments["confirm"] = json!(asked_for(&before));
    let again = call(&lab, "prune", arguments.clone()).await;
    assert_ne!(asked_for(&before), asked_for(&again), "{again}");
    for name in [&ended, &never, &later] {
        assert_contains(&again, name);
        assert_ne!(lab.state(name).await, "running");
    }
    arguments["confirm"] = json!(asked_for(&again));
    let pruned = succeed(&lab, "prune", arguments).await;
    assert_has!(pruned, {"applied": true, "count": 4});
    assert_eq!(lab.state(&running).await, "running");
    lab.remove(&kept).await;
    fails_with!(lab, "get_container", {"container": ended}, "There is no container");
}

/// A named volume is kept by default.
const UNUSED: &str = r#"
create_network | {"network": "P-net"} | created
create_volume | {"volume": "P-data"} | created
prune | {"what": "networks", "apply": true, "confirm": "networks"} | {"items": ["P-net"]}
prune | {"what": "volumes", "apply": true, "confirm": "volumes"} | {"count": 0}
prune | {"what": "volumes", "all": true, "apply": true, "confirm": "volumes"} | {"items": ["P-data"]}
prune | {"what": "build_cache"} | {"applied": false}
"#;

#[tokio::test]
async fn unused_networks_and_volumes_are_pruned() {
    let Some(lab) = own_lab().await else { return };
    lab.steps(UNUSED, &[]).await;
}

#[tokio::test]
async fn unused_images_are_shown() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("unused"));
    succeed!(lab, "build_image", {"tag": tag, "dockerfile": format!("FROM busybox:test\nLABEL a={tag}")});
    let shown = async |all: bool| -> Value {
        succeed(&lab, "prune", json!({"what": "images", "all": all})).await["items"].clone()
    };
    assert!(texts(&shown(true).await).contains(&tag.as_str()));
    assert!(!texts(&shown(false).await).contains(&tag.as_str()));
}

/// Words of the summary, the severity, the container, and the next tool.
const PROBLEMS: &str = "
restart again and again | high | loop | diagnose_container
health check | high | sick | diagnose_container
engine's socket | high | root | get_container
failed within a day | medium | failed | diagnose_container
could not be started | high | nostart | diagnose_container
does not run | high | shares | diagnose_container
killed within a day | medium | killed | diagnose_container
memory limit | medium | full | get_container_stats
CPU limit | medium | busy | get_container_stats
large log files | medium | chatty | get_container
all networks | medium | open | get_container
replacement that broke off | medium | old.before-ID | get_container
were never started | medium | waits | diagnose_container
nothing listens | medium | deaf | diagnose_container
";

#[tokio::test]
async fn host_is_diagnosed() {
    let Some(lab) = own_lab().await else { return };
    let host = |config: Value| json!({"HostConfig": config});
    let always = || host(json!({"RestartPolicy": {"Name": "always"}}));
    for name in ["loop", "hidden"] {
        lab.run(name, &["sh", "-c", "exit 3"], always()).await;
    }
    let check =
        json!({"Healthcheck": {"Test": ["CMD", "false"], "Interval": 100_000_000, "Retries": 1}});
    lab.sleep("sick", check).await;
    let socket = lab.host.strip_prefix("unix://").unwrap();
    let root = host(json!({"Binds": [format!("{socket}:/var/run/docker.sock")]}));
    lab.sleep("root", root).await;
    let open = json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "0"}]}}});
    lab.sleep("open", open).await;
    lab.run("failed", &["sh", "-c", "exit 4"], json!({})).await;
    lab.create("nostart", &["/nope"], json!({})).await;
    assert!(lab.start(&lab.name("nostart")).await.is_err());
    let killed = lab.sleep("killed", json!({})).await;
    lab.kill(&killed).await;
    let owner = lab.sleep("owner", json!({})).await;
    let shares = host(json!({"NetworkMode": format!("container:{owner}")}));
    lab.sleep("shares", shares).await;
    lab.remove(&owner).await;
    let busy = host(json!({"NanoCpus": 50_000_000}));
    lab.run("busy", &["sh", "-c", "while :; do :; done"], busy)
        .await;
    let full = "head -c 62000000 /dev/zero > /dev/shm/x; sleep 600";
    let memory = host(json!({"Memory": 64 << 20, "ShmSize": 64 << 20}));
    lab.run("full", &["sh", "-c", full], memory).await;
    let old = lab.create("old", &["true"], json!({})).await;
    let id = lab.id(&old).await;
    let _lock = locked(&id);
    lab.rename(&old, &format!("{old}.before-{}", &id[..12]))
        .await;
    let waits = json!({"Labels": of_compose(&lab.name("shop"), "web")});
    lab.create("waits", &["true"], waits).await;
    lab.publish("deaf").await;
    let chatty = "head -c 120000000 /dev/zero | tr '\\0' x; sleep 600";
    lab.run("chatty", &["sh", "-c", chatty], json!({})).await;
    let found = eventually("all problems", async || {
        let found = succeed(&lab, "diagnose_host", json!({})).await;
        let problems = found["problems"].as_array().unwrap().clone();
        let has = |row: &&str| {
            let [what, severity, name, tool] = row.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            let name = lab.name(&name.replace("ID", &id[..12]));
            problems.iter().any(|problem| {
                problem["summary"].to_string().contains(what)
                    && problem["severity"] == severity
                    && problem["containers"].to_string().contains(&name)
                    && problem["next"].as_str().unwrap().starts_with(tool)
            })
        };
        let missing: Vec<_> = PROBLEMS.trim().lines().filter(|row| !has(row)).collect();
        missing.is_empty().then_some(found)
    })
    .await;
    assert_lacks(&found.to_string(), &lab.name("hidden"));
    let severities = found["problems"].as_array().unwrap().iter();
    let ranks: Vec<_> = severities
        .map(|problem| {
            ["high", "medium", "low"]
                .iter()
                .position(|rank| problem["severity"] == *rank)
        })
        .collect();
    assert!(ranks.is_sorted(), "{found}");
    assert!(found.to_string().len() < 8_000, "{found}");
    // Every next call is one that works.
    for problem in found["problems"].as_array().unwrap() {
        let (tool, arguments) = problem["next"].as_str().unwrap().split_once(' ').unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        succeed(&lab, tool, arguments).await;
    }
}

#[tokio::test]
async fn grep_says_what_it_searched() {
    let Some(lab) = lab().await else { return };
    let script = "echo needle; yes 'a line of a long log' | head -n 210000";
    let name = lab.finish("long", &["sh", "-c", script], json!({})).await;
    let found = succeed!(lab, "get_container_logs", {"container": name, "grep": "needle"});
    // Its newest 200,000 lines, or as many as a busy machine reads in time.
    assert_has!(found, {"lines": 0, "truncated": true});
    assert_contains(&found["note"], "earched");
}

#[tokio::test]
async fn use_is_measured_over_a_window() {
    let Some(lab) = own_lab().await else { return };
    let slow = json!({"HostConfig": {"NanoCpus": 50_000_000}});
    let busy = lab
        .run("busy", &["sh", "-c", "while :; do :; done"], slow)
        .await;
    let big = "head -c 30000000 /dev/zero > /dev/shm/x; sleep 600";
    let big = lab.run("big", &["sh", "-c", big], json!({})).await;
    // A busy machine may not let it work for some seconds.
    wait_until("it waits for its limit", async || {
        let measured = succeed!(lab, "get_container_stats", {"seconds": 2});
        let rows = measured["containers"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{measured}");
        let row = rows.iter().find(|row| row["container"] == *busy).unwrap();
        let window = &row["window"];
        assert_has!(window, {"samples": 4, "oom_events": 0});
        let part = |name: &str, part: &str| window[name][part].as_f64().unwrap();
        let cpu = ["min", "mean", "max"].map(|name| part("cpu_percent", name));
        assert!(cpu.is_sorted(), "{measured}");
        part("throttled_percent", "max") > 0.0
    })
    .await;
    // Wide bounds: other programs use the machine, too.
    wait_until("its use", async || {
        let used = succeed!(lab, "get_container_stats", {"container": busy});
        let used = &used["containers"][0];
        let cpu = used["cpu_percent"].as_f64().unwrap();
        cpu > 1.0 && cpu < 50.0 && used["memory_bytes"].as_u64() > Some(0)
    })
    .await;
    // Once it has written its file.
    wait_until("the largest", async || {
        let by_memory = succeed!(lab, "get_container_stats", {"by": "memory", "top": 1});
        let rows = by_memory["containers"].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{by_memory}");
        rows[0]["container"] == json!(big)
    })
    .await;
    let ended = lab.create("ended", &["true"], json!({})).await;
    fails_with!(lab, "get_container_stats", {"container": ended}, "is not running");
}
