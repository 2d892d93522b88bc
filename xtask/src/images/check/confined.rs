//! How far a container is shut in: as the engine was told, and as the kernel does it.

use std::fs;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::container;
use crate::services::docker::cli::Cli;

/// No more than a program: no user but nobody, no rights, nothing to write to, and of this machine
/// only what it is there for.
pub(super) fn check(cli: &Cli, server: &str) -> anyhow::Result<()> {
    let inspected = cli.expect(&["inspect", &container(server)])?;
    let inspected: Value = serde_json::from_str(&inspected)?;
    let (container, host) = (&inspected[0], &inspected[0]["HostConfig"]);
    for (what, found, expected) in [
        (
            "image",
            &container["Config"]["Image"],
            json!(format!("mcp-servers/{server}:local")),
        ),
        ("user", &container["Config"]["User"], json!("65532:65532")),
        ("read-only", &host["ReadonlyRootfs"], json!(true)),
        ("privileged", &host["Privileged"], json!(false)),
        ("dropped", &host["CapDrop"], json!(["ALL"])),
        ("added", &host["CapAdd"], Value::Null),
        (
            "options",
            &host["SecurityOpt"],
            json!(["no-new-privileges:true"]),
        ),
        ("processes", &host["PidsLimit"], json!(128)),
        ("memory", &host["Memory"], json!(256 << 20)),
        ("restarts", &container["RestartCount"], json!(0)),
    ] {
        ensure!(*found == expected, "{what}: {found}, not {expected}");
    }
    let expected = match server {
        "docker-mcp-server" => vec!["/var/run/docker.sock"],
        "mcp-gateway" => vec!["/gateway.toml"],
        _ => Vec::new(),
    };
    let mounts = container["Mounts"].as_array().context("mounts")?;
    let mounts: Vec<_> = mounts.iter().map(|mount| &mount["Destination"]).collect();
    ensure!(mounts == expected, "mounts: {mounts:?}, not {expected:?}");
    let published = host["PortBindings"].as_object().context("ports")?;
    let mut addresses = published
        .values()
        .flat_map(|port| port.as_array())
        .flatten();
    let on_loopback = addresses.all(|address| address["HostIp"] == "127.0.0.1");
    ensure!(on_loopback && published.len() == 1, "ports: {published:?}");
    let layers = cli.expect(&["image", "inspect", &format!("mcp-servers/{server}:local")])?;
    let layers: Value = serde_json::from_str(&layers)?;
    let layers = layers[0]["RootFS"]["Layers"].as_array().map(Vec::len);
    ensure!(layers == Some(1), "the image has a base: {layers:?} layers");
    is_powerless(&container["State"]["Pid"])
}

/// What the kernel itself says of a process.
fn is_powerless(pid: &Value) -> anyhow::Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("it has ended")?;
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for (name, expected) in [
        ("Uid", "65532 65532 65532 65532"),
        ("Gid", "65532 65532 65532 65532"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("NoNewPrivs", "1"),
    ] {
        let found = field(name);
        ensure!(
            found.as_deref() == Some(expected),
            "{name}: {found:?}, not {expected}"
        );
    }
    Ok(())
}
