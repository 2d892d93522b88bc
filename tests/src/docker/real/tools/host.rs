//! Tools that look at many containers: `diagnose_host` and `get_container_stats`; long logs.

use bollard::query_parameters::{KillContainerOptions, StartContainerOptions};
use serde_json::{Value, json};

use super::super::super::lab::Lab;
use super::{call, lab, lab_with, succeed};
use crate::harness::{assert_contains, assert_lacks, eventually};

/// Two environments with the same containers: the server of the second one sees no others.
async fn labs() -> Option<(Lab, Lab)> {
    let lab = lab().await?;
    let rules = [
        ("DOCKER_MCP_ALLOW", &*format!("name={}*", lab.name(""))),
        ("DOCKER_MCP_DENY", &*format!("name={}", lab.name("hidden"))),
    ];
    let isolated = lab_with(&rules).await?;
    Some((lab, isolated))
}

#[tokio::test]
async fn host_is_diagnosed() {
    let Some((mut lab, isolated)) = labs().await else {
        return;
    };
    let host = |config: Value| json!({"HostConfig": config});
    let always = || host(json!({"RestartPolicy": {"Name": "always"}}));
    for name in ["loop", "hidden"] {
        lab.run(name, &["sh", "-c", "exit 3"], always()).await;
    }
    let check =
        json!({"Healthcheck": {"Test": ["CMD", "false"], "Interval": 100_000_000, "Retries": 1}});
    lab.run("sick", &["sleep", "600"], check).await;
    let socket = lab.host.strip_prefix("unix://").unwrap();
    let root = host(json!({"Binds": [format!("{socket}:/var/run/docker.sock")]}));
    lab.run("root", &["sleep", "600"], root).await;
    let open = json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "0"}]}}});
    lab.run("open", &["sleep", "600"], open).await;
    lab.run("failed", &["sh", "-c", "exit 4"], json!({})).await;
    lab.create("nostart", &["/nope"], json!({})).await;
    let nostart = lab.name("nostart");
    let start = lab
        .docker
        .start_container(&nostart, None::<StartContainerOptions>);
    assert!(start.await.is_err());
    let killed = lab.run("killed", &["sleep", "600"], json!({})).await;
    let kill = lab
        .docker
        .kill_container(&killed, None::<KillContainerOptions>);
    kill.await.unwrap();
    let owner = lab.run("owner", &["sleep", "600"], json!({})).await;
    let shares = host(json!({"NetworkMode": format!("container:{owner}")}));
    lab.run("shares", &["sleep", "600"], shares).await;
    lab.remove(&owner).await;
    let busy = host(json!({"NanoCpus": 50_000_000}));
    lab.run("busy", &["sh", "-c", "while :; do :; done"], busy)
        .await;
    let full = "head -c 62000000 /dev/zero > /dev/shm/x; sleep 600";
    let memory = host(json!({"Memory": 64 << 20, "ShmSize": 64 << 20}));
    lab.run("full", &["sh", "-c", full], memory).await;
    let chatty = "head -c 120000000 /dev/zero | tr '\\0' x; sleep 600";
    lab.run("chatty", &["sh", "-c", chatty], json!({})).await;
    let rows = [
        (
            "restart again and again",
            "high",
            "loop",
            "diagnose_container",
        ),
        ("health check", "high", "sick", "diagnose_container"),
        ("engine's socket", "high", "root", "get_container"),
        (
            "failed within a day",
            "medium",
            "failed",
            "diagnose_container",
        ),
        (
            "could not be started",
            "high",
            "nostart",
            "diagnose_container",
        ),
        ("does not run", "high", "shares", "diagnose_container"),
        (
            "killed within a day",
            "medium",
            "killed",
            "diagnose_container",
        ),
        ("memory limit", "medium", "full", "get_container_stats"),
        ("CPU limit", "medium", "busy", "get_container_stats"),
        ("large log files", "medium", "chatty", "get_container"),
        ("all networks", "medium", "open", "get_container"),
    ];
    let found = eventually("all problems", async || {
        let found = succeed(&isolated, "diagnose_host", json!({})).await;
        let problems = found["problems"].as_array().unwrap().clone();
        let has = |(what, severity, name, tool): &(&str, &str, &str, &str)| {
            let name = lab.name(name);
            problems.iter().any(|problem| {
                problem["summary"].to_string().contains(what)
                    && problem["severity"] == *severity
                    && problem["containers"].to_string().contains(&name)
                    && problem["next"].as_str().unwrap().starts_with(tool)
            })
        };
        let missing: Vec<_> = rows.iter().filter(|row| !has(row)).collect();
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
        assert_eq!(
            call(&isolated, tool, arguments).await["isError"],
            false,
            "{problem}"
        );
    }
}

#[tokio::test]
async fn grep_says_what_it_searched() {
    let Some(mut lab) = lab().await else { return };
    let script = "echo needle; yes 'a line of a long log' | head -n 210000";
    let name = lab.finish("long", &["sh", "-c", script], json!({})).await;
    let found = succeed!(lab, "get_container_logs", {"container": name, "grep": "needle"});
    // Its newest 200,000 lines, or as many as a busy machine reads in time.
    assert_has!(found, {"lines": 0, "truncated": true});
    assert_contains(&found["note"], "earched");
}

#[tokio::test]
async fn use_is_measured_over_a_window() {
    let Some((mut lab, isolated)) = labs().await else {
        return;
    };
    let slow = json!({"HostConfig": {"NanoCpus": 50_000_000}});
    let busy = lab
        .run("busy", &["sh", "-c", "while :; do :; done"], slow)
        .await;
    let big = "head -c 30000000 /dev/zero > /dev/shm/x; sleep 600";
    let big = lab.run("big", &["sh", "-c", big], json!({})).await;
    let measured = succeed!(isolated, "get_container_stats", {"seconds": 2});
    let rows = measured["containers"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{measured}");
    let row = rows.iter().find(|row| row["container"] == *busy).unwrap();
    let window = &row["window"];
    assert_has!(window, {"samples": 4, "oom_events": 0});
    let part = |name: &str, part: &str| window[name][part].as_f64().unwrap();
    assert!(
        part("cpu_percent", "min") <= part("cpu_percent", "mean"),
        "{measured}"
    );
    assert!(
        part("cpu_percent", "mean") <= part("cpu_percent", "max"),
        "{measured}"
    );
    assert!(part("throttled_percent", "max") > 0.0, "{measured}");
    let by_memory = succeed!(isolated, "get_container_stats", {"by": "memory", "top": 1});
    let rows = by_memory["containers"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["container"]),
        (1, &json!(big)),
        "{by_memory}"
    );
}
