//! How far a container is shut in: as the engine was told, and as the kernel does it.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::images::image;
use crate::services::docker::IMAGE;
use crate::services::docker::cli::Cli;

/// Returns the name that compose gives to the container of a service.
pub(super) fn container(server: &str) -> String {
    format!("{}-{server}-1", super::PROJECT)
}

/// Errors when it is more than a program: no user but nobody, no rights, nothing to write to, and of
/// this machine only what it is there for.
pub(super) fn check(cli: &Cli, server: &str) -> anyhow::Result<()> {
    let image = image::name(server);
    let inspect =
        |what: &[&str]| -> anyhow::Result<Value> { Ok(serde_json::from_str(&cli.expect(what)?)?) };
    let inspected = inspect(&["inspect", &container(server)])?;
    let (container, host) = (&inspected[0], &inspected[0]["HostConfig"]);
    for (what, found, expected) in [
        ("image", &container["Config"]["Image"], json!(image)),
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
    let ports = published.values().filter_map(Value::as_array);
    let on_loopback = ports
        .flatten()
        .all(|address| address["HostIp"] == "127.0.0.1");
    ensure!(on_loopback && published.len() == 1, "ports: {published:?}");
    let layers = inspect(&["image", "inspect", &image])?;
    let layers = layers[0]["RootFS"]["Layers"].as_array().map(Vec::len);
    ensure!(layers == Some(1), "the image has a base: {layers:?} layers");
    is_powerless(cli, server)
}

/// Looks at what the kernel itself says of the process, from a container that sees the same processes.
fn is_powerless(cli: &Cli, server: &str) -> anyhow::Result<()> {
    let processes = format!("container:{}", container(server));
    let status = [
        "run",
        "--rm",
        "--pid",
        &processes,
        IMAGE,
        "cat",
        "/proc/1/status",
    ];
    let status = cli.expect(&status).context("it has ended")?;
    let field = |name: &str| {
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
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
        let is_expected = found.as_deref() == Some(expected);
        ensure!(is_expected, "{name}: {found:?}, not {expected}");
    }
    Ok(())
}
