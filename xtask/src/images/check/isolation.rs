//! Checks how a container is isolated: by the engine's settings, and by the kernel's.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::services::docker::cli::{Cli, IMAGE};

/// Returns the name that compose gives to the container of a service.
pub(super) fn container(server: &str) -> String {
    format!("{}-{server}-1", super::PROJECT)
}

/// Errors if the container has more than it needs: another user than 65532, capabilities, writable files, other mounts and ports, or an image with a base.
pub(super) fn check(cli: &Cli, server: &str, image: &str) -> anyhow::Result<()> {
    let inspect =
        |args: &[&str]| -> anyhow::Result<Value> { Ok(serde_json::from_str(&cli.run(args)?)?) };
    let inspected = inspect(&["inspect", &container(server)])?;
    let (container, host) = (&inspected[0], &inspected[0]["HostConfig"]);
    let no_new_privileges = json!(["no-new-privileges:true"]);
    for (what, found, expected) in [
        ("image", &container["Config"]["Image"], json!(image)),
        ("user", &container["Config"]["User"], json!("65532:65532")),
        ("read-only", &host["ReadonlyRootfs"], json!(true)),
        ("privileged", &host["Privileged"], json!(false)),
        ("dropped", &host["CapDrop"], json!(["ALL"])),
        ("added", &host["CapAdd"], Value::Null),
        ("options", &host["SecurityOpt"], no_new_privileges),
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
    let mut addresses = published.values().filter_map(Value::as_array).flatten();
    let on_loopback = addresses.all(|address| address["HostIp"] == "127.0.0.1");
    ensure!(on_loopback && published.len() == 1, "ports: {published:?}");
    let layers = inspect(&["image", "inspect", image])?;
    let layers = layers[0]["RootFS"]["Layers"].as_array().map(Vec::len);
    ensure!(layers == Some(1), "the image has a base: {layers:?} layers");
    check_process(cli, server)
}

/// Checks the kernel's status of the process, from a container in the same namespace of processes.
fn check_process(cli: &Cli, server: &str) -> anyhow::Result<()> {
    let processes = format!("container:{}", container(server));
    let mut args = vec!["run", "--rm", "--pid", &processes, IMAGE];
    args.extend(["cat", "/proc/1/status"]);
    let status = cli.run(&args).context("it has ended")?;
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
