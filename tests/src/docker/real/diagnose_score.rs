//! The score of `diagnose_container`: broken containers on every engine, and whether the cause is right, the
//! evidence shows it, and a next step helps.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bollard::body_full;
use bollard::query_parameters::{
    EventsOptionsBuilder, StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};

use crate::docker::prelude::*;

/// The table of containers that need no preparation.
const BROKEN_CONTAINERS: &str = include_str!("broken_containers.txt");
/// Time in which a row of the table is asked again, while its container comes to its end.
const MAX_ROW_TIME: Duration = Duration::from_secs(120);
/// Time of a row on Podman, where some rows are never right.
const MAX_ROW_TIME_PODMAN: Duration = Duration::from_secs(3);
/// Rows of one engine at the same time.
const MAX_CONCURRENT_ROWS: usize = 6;

/// A broken container.
struct Broken {
    row: String,
    container: String,
    /// The engine's message, which only Podman does not keep.
    error: Option<String>,
    /// Parts of the cause, the evidence and the next steps; alternatives are separated by `|`.
    expected: [String; 3],
}

/// The broken containers of one engine.
struct Ward {
    lab: Lab,
    is_podman: bool,
    broken: Vec<Broken>,
}

impl Ward {
    fn expect(&mut self, row: &str, container: &str, error: Option<String>, expected: [&str; 3]) {
        let broken = self.expected(row, container, error, expected);
        self.broken.push(broken);
    }

    fn expected(
        &self,
        row: &str,
        container: &str,
        error: Option<String>,
        expected: [&str; 3],
    ) -> Broken {
        Broken {
            row: row.to_owned(),
            container: container.to_owned(),
            error: error.filter(|_| self.is_podman),
            expected: expected.map(|part| part.replace("PREFIX", &self.lab.prefix)),
        }
    }

    async fn stop(&self, name: &str, seconds: i32) {
        let options = StopContainerOptionsBuilder::new().t(seconds).build();
        let stop = self.lab.docker.stop_container(name, Some(options));
        stop.await.unwrap();
    }

    /// Breaks the container of a line of the table.
    async fn break_one(&self, number: usize, line: &str) -> Broken {
        let line = line.replace("PREFIX", &self.lab.prefix);
        let fields: Vec<&str> = line.split(" ;; ").collect();
        let [row, command, options, cause, evidence, next] = fields[..] else {
            panic!("{line}");
        };
        let script = ending_late(command);
        let parsed = serde_json::from_str::<Vec<&str>>(command);
        let command = parsed.unwrap_or_else(|_| vec!["sh", "-c", &script]);
        let mut options: Value = serde_json::from_str(options).unwrap();
        let stays = options.as_object_mut().unwrap().remove("start").is_some();
        let name = format!("n{number}");
        let name = self.lab.create(&name, &command, options).await;
        for (path, bytes) in files(row) {
            let to = UploadToContainerOptionsBuilder::new().path("/").build();
            let body = body_full(archive(path, &bytes).into());
            let upload = self.lab.docker.upload_to_container(&name, Some(to), body);
            upload.await.unwrap();
        }
        let error = match stays {
            true => None,
            false => self.lab.start(&name).await.err(),
        };
        self.expected(row, &name, error, [cause, evidence, next])
    }

    /// Whether a line of the table is for this engine.
    fn has(&self, line: &str) -> bool {
        // Podman runs no health check without systemd, creates no container with a missing device, and has another
        // default network.
        let is_docker_only = ["unhealthy", "device missing", "peer"]
            .iter()
            .any(|row| line.starts_with(row));
        let is_x86_only = line.starts_with("missing shared library");
        !(line.starts_with('#')
            || is_docker_only && self.is_podman
            || is_x86_only && !cfg!(target_arch = "x86_64"))
    }

    /// Breaks containers for which something else must change at the right time.
    async fn break_others(&mut self) {
        let killed = self.lab.sleep("killed", json!({})).await;
        self.lab.kill(&killed).await;
        let parts = ["killed high", "signal 9", "who killed it"];
        self.expect("killed", &killed, None, parts);
        let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done";
        let handles = self.lab.run_script("handles", script).await;
        self.lab.until_written(&handles, "ready", 1).await;
        let ignores = self.lab.sleep("ignores", json!({})).await;
        self.stop(&handles, 60).await;
        self.stop(&ignores, 0).await;
        if !self.is_podman {
            let parts = ["stopped high", "stop at", "start_container"];
            self.expect("stopped", &handles, None, parts);
            let parts = ["killed high", "signal 9", "handle SIGTERM"];
            self.expect("stopped by force", &ignores, None, parts);
        }
        let paused = self.lab.sleep("paused", json!({})).await;
        self.lab.docker.pause_container(&paused).await.unwrap();
        let parts = ["paused high", "paused", "paused: false"];
        self.expect("paused", &paused, None, parts);

        let (holder, port) = self.lab.publish("holder").await;
        let second = self.lab.create("second", &["true"], published(&port)).await;
        let error = self.lab.start(&second).await.err();
        self.expect(
            "host port used",
            &second,
            error,
            ["port_taken high", &holder, &holder],
        );

        let folder = Folder::new();
        let mount = json!({"Type": "bind", "Source": folder.path(), "Target": "/data"});
        let more = json!({"HostConfig": {"Mounts": [mount]}});
        let bind = self.lab.sleep("bind", more).await;
        self.stop(&bind, 0).await;
        drop(folder);
        let error = self.lab.start(&bind).await.err();
        let parts = ["bind_source_missing", "path", "Create the path"];
        self.expect("bind source gone", &bind, error, parts);

        for name in ["peers", "apart"] {
            self.lab.network(name).await;
        }
        let peers = json!({"HostConfig": {"NetworkMode": self.lab.name("peers")}});
        self.lab.sleep("peer", peers).await;
        self.lab.sleep("plain", json!({})).await;

        self.lab.network("net").await;
        let network = self.lab.name("net");
        let more = json!({"HostConfig": {"NetworkMode": network}});
        let name = self.lab.create("gone", &["true"], more).await;
        let removed = self.lab.docker.remove_network(&network).await;
        // Podman removes no network that a container names.
        if removed.is_ok() {
            let error = self.lab.start(&name).await.err();
            let parts = ["network_missing", "network", "create_network"];
            self.expect("network removed", &name, error, parts);
        }
    }

    /// Lets the engine forget the kill of a container, which takes 256 events of health checks.
    async fn make_forget(&self) -> Broken {
        let name = self.lab.sleep("forgotten", json!({})).await;
        self.lab.kill(&name).await;
        let check = json!({"Healthcheck": {"Test": ["CMD", "true"], "Interval": 50_000_000}});
        for number in 0..3 {
            self.lab
                .sleep(&format!("noise-{number}"), check.clone())
                .await;
        }
        wait_until("the engine forgets", async || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let own = [("container".to_owned(), vec![name.clone()])];
            let options = EventsOptionsBuilder::new().since("1").filters(&own.into());
            let options = options.until(&now.as_secs().to_string()).build();
            self.lab.docker.events(Some(options)).next().await.is_none()
        })
        .await;
        let events = succeed!(self.lab, "list_events", {"name": name});
        assert!(events.to_string().contains("\"kill\""), "{events}");
        let parts = ["killed", "signal 9", "who killed it"];
        self.expected("killed, events gone", &name, None, parts)
    }

    /// The points of a row, and the last diagnosis.
    async fn points(&self, broken: &Broken) -> ([bool; 3], Value) {
        let mut asked = json!({"container": broken.container});
        if let Some(error) = &broken.error {
            asked["error"] = json!(error);
        }
        let limit = match self.is_podman {
            true => MAX_ROW_TIME_PODMAN,
            false => MAX_ROW_TIME,
        };
        let began = Instant::now();
        loop {
            let got = succeed(&self.lab, "diagnose_container", asked.clone()).await;
            let word = |member: &str| got[member].as_str().unwrap_or_default();
            let cause = format!("{} {}", word("cause"), word("confidence"));
            let [evidence, next] = ["evidence", "next_steps"].map(|list| got[list].to_string());
            let texts = [cause, evidence, next];
            let mut parts = texts.iter().zip(&broken.expected);
            let points = [(); 3].map(|()| {
                let (text, part) = parts.next().unwrap();
                part.split('|').any(|part| text.contains(part))
            });
            if points == [true; 3] || began.elapsed() >= limit {
                return (points, got);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The files in the container of a row.
fn files(row: &str) -> Vec<(&'static str, Vec<u8>)> {
    match row {
        "wrong architecture" => {
            let mut arm = b"\x7fELF\x01\x01\x01".to_vec();
            arm.resize(16, 0);
            arm.extend([2, 0, 0x28, 0, 1, 0, 0, 0]);
            arm.resize(128, 0);
            vec![("app", arm)]
        }
        "missing interpreter" => vec![("app", b"#!/nope/bash\necho hi\n".into())],
        "CRLF entrypoint" => vec![("app", b"#!/bin/sh\r\necho hi\r\n".into())],
        "missing shared library" => {
            let loader = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
            vec![
                ("app", fs::read("/bin/ls").unwrap()),
                ("lib64/ld-linux-x86-64.so.2", loader),
            ]
        }
        _ => Vec::new(),
    }
}

/// An archive of one executable file.
fn archive(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut tar = vec![0; 512];
    tar[..path.len()].copy_from_slice(path.as_bytes());
    for (at, number) in [(100, 0o755), (108, 0), (116, 0), (136, 0)] {
        tar[at..at + 8].copy_from_slice(format!("{number:07o}\0").as_bytes());
    }
    tar[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    tar[148..156].fill(b' ');
    let sum: u32 = tar.iter().map(|byte| u32::from(*byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar.extend(bytes);
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    tar
}

/// The points of an engine: a table, and the rows with a wrong cause, evidence and next step.
async fn score(host: String, is_podman: bool) -> (String, [usize; 3]) {
    let lab = Lab::at(host, &[]).await;
    let mut ward = Ward {
        lab,
        is_podman,
        broken: Vec::new(),
    };
    let project = json!({"Labels": of_compose(&ward.lab.prefix, "db")});
    ward.lab.run("db", &["sh", "-c", "exit 7"], project).await;
    ward.break_others().await;
    let lines = BROKEN_CONTAINERS.lines().filter(|line| ward.has(line));
    let lines = stream::iter(lines.enumerate());
    let breaking = lines.map(|(number, line)| ward.break_one(number, line));
    let breaking = breaking.buffered(MAX_CONCURRENT_ROWS).collect::<Vec<_>>();
    let forget = async {
        match is_podman {
            true => None,
            false => Some(ward.make_forget().await),
        }
    };
    let (broken, forgotten) = tokio::join!(breaking, forget);
    ward.broken.extend(broken.into_iter().chain(forgotten));
    let (mut table, mut missed) = (String::new(), [0; 3]);
    let scored = stream::iter(&ward.broken).map(async |broken| (broken, ward.points(broken).await));
    let scored: Vec<_> = scored.buffered(MAX_CONCURRENT_ROWS).collect().await;
    for (broken, (points, got)) in scored {
        for (missed, point) in missed.iter_mut().zip(points) {
            *missed += usize::from(!point);
        }
        let [cause, evidence, next] = points.map(u8::from);
        writeln!(table, "| {} | {cause} | {evidence} | {next} |", broken.row).unwrap();
        if points != [true; 3] {
            writeln!(table, "    {got}").unwrap();
        }
    }
    let [cause, evidence, next] = missed.map(|missed| ward.broken.len() - missed);
    writeln!(
        table,
        "| of {} | {cause} | {evidence} | {next} |",
        ward.broken.len()
    )
    .unwrap();
    (table, missed)
}

/// 100 containers on each engine take longer than other tests.
#[tokio::test]
async fn broken_containers_are_diagnosed() {
    // Podman 4.3 notes no lack of memory, and its service restarts no container.
    let engines = real::docker_engines().into_iter().map(|host| (host, false));
    let engines: Vec<_> = engines
        .chain(real::podman().map(|host| (host, true)))
        .collect();
    let scores = engines
        .iter()
        .map(|(host, is_podman)| score(host.clone(), *is_podman));
    for ((host, is_podman), (table, missed)) in engines.iter().zip(join_all(scores).await) {
        eprintln!("{host}\n{table}");
        let allowed = match is_podman {
            true => [8, 8, 10],
            false => [0; 3],
        };
        let is_good = missed
            .iter()
            .zip(allowed)
            .all(|(missed, allowed)| *missed <= allowed);
        assert!(is_good, "{missed:?}\n{table}");
    }
}

/// As if the engine had stopped its containers, which it does before it ends.
#[tokio::test]
async fn end_with_the_engine_is_told() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
    server.wait_for_status("online").await;
    wait_until("the events", async || proxy.streams() > 0).await;
    let web = lab.run("web", &["true"], json!({})).await;
    lab.until(&web, "exited").await;
    proxy.cut();
    let told = "The engine went away at";
    wait_until("the loss", async || {
        let found = succeed!(server, "diagnose_container", {"container": web});
        found["cause"] == "stopped" && found["summary"].to_string().contains(told)
    })
    .await;
    let found = succeed!(server, "diagnose_host", {});
    assert_contains(&found["problems"], told);
}

/// Variables of a server, a container, and the tool that its next steps say is not for this server.
const FORBIDDEN: [(&str, &str, &str, &str); 8] = [
    ("MCP_READ_ONLY", "1", "silent", "recreate_container"),
    ("MCP_READ_ONLY", "1", "loop", "stop_container"),
    ("MCP_TOOLSETS", "default", "silent", "recreate_container"),
    ("MCP_TOOLSETS", "default", "loop", ""),
    ("DOCKER_MCP_NO_DESTRUCTIVE", "1", "loop", "stop_container"),
    ("DOCKER_MCP_NO_DESTRUCTIVE", "1", "paused", ""),
    ("DOCKER_MCP_ONLY_CREATED", "1", "paused", "update_container"),
    ("MCP_TOOLSETS", "all", "silent", ""),
];

#[tokio::test]
async fn advice_does_not_contradict_the_policy() {
    let Some(lab) = lab().await else { return };
    let none = json!({"HostConfig": {"LogConfig": {"Type": "none"}}});
    lab.sleep("silent", none).await;
    let always = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    lab.run("loop", &["sh", "-c", "exit 3"], always).await;
    let paused = lab.sleep("paused", json!({})).await;
    lab.docker.pause_container(&paused).await.unwrap();
    for (variable, value, name, tool) in FORBIDDEN {
        let server = in_front_of(&lab.host, &[(variable, value)]).await;
        let container = lab.name(name);
        let steps = eventually("the cause", async || {
            let found = succeed!(server, "diagnose_container", {"container": container});
            let is_known = name != "loop" || found["cause"] == "crash_loop";
            is_known.then(|| found["next_steps"].to_string())
        })
        .await;
        let remark = format!("This server may not use `{tool}` for that: let the user do it.");
        match tool {
            "" => assert_lacks(&steps, "may not use"),
            _ => assert_contains(&steps, &remark),
        }
    }
    let system = in_front_of(&lab.host, &[("MCP_TOOLSETS", "system")]).await;
    let found = succeed!(system, "diagnose_host", {});
    assert_contains(&found["problems"], "may not use `diagnose_container`");
}

#[tokio::test]
async fn stuck_absent_and_ended_containers_are_described() {
    let Some(lab) = lab().await else { return };
    let name = lab.create("wedged", &["true"], json!({})).await;
    let proxy = Proxy::silent_about(&lab.host, &format!("/containers/{name}/json")).await;
    let server = in_front_of(&proxy.host, &[("DOCKER_CLIENT_TIMEOUT", "20")]).await;
    let diagnosis = succeed!(server, "diagnose_container", {"container": name});
    assert_has!(diagnosis, {"cause": "stuck", "container": name});
    assert_contains(&diagnosis["next_steps"], "restart the engine");

    // Of a container that does not exist there is no more than the error of its creation.
    let error = "invalid mount config for type \"bind\": bind source path does not exist: /x";
    let diagnosis = succeed!(lab, "diagnose_container", {"container": "that-was-never-created", "error": error});
    assert_has!(diagnosis, {"cause": "bind_source_missing", "state": "absent"});

    let script = "echo first; sleep 0.5; echo 'FATAL: last' >&2; exit 3";
    let name = lab.finish("app", &["sh", "-c", script], json!({})).await;
    let diagnosis = succeed!(lab, "diagnose_container", {"container": name});
    assert_eq!(diagnosis["log"], "first\nFATAL: last");
    assert_contains(&diagnosis["timeline"], "die (exit code 3)");
}
