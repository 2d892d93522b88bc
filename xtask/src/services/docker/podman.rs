//! Podman behind the interface of Docker, for the tests: Debian's, unpacked beside the engines, whose
//! container runtime and packet filter it shares.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::{answers, debian, example, host, install, runtime_dir, socket};
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::{Process, Program};
use crate::services::{Place, wait_ready};

/// Podman 4.3.
const SUITE: &str = "bookworm";
const PACKAGES: [&str; 7] = [
    "podman",
    "conmon",
    "containernetworking-plugins",
    "libassuan0",
    "libgpgme11",
    "libseccomp2",
    "libsubid4",
];

/// Podman has no daemon, and would leave containers behind when it is killed. They live in a
/// namespace of processes that ends with it, and their mounts and networks in others.
const OWN_WORLD: [&str; 5] = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
const SERVE: &str = r#"ip link set lo up; exec podman system service --time 0 "$0""#;

/// Where it is unpacked.
fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join("podman")
}

/// Fetches and unpacks it.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<()> {
    debian::unpack(layout, "podman", &dir(layout), SUITE, &PACKAGES)
}

/// Starts it, with the image that the engines have.
pub(crate) fn start(layout: &Layout, place: &Place) -> anyhow::Result<Process> {
    let mut beat = Heartbeat::start("podman", "starting Podman");
    let log = layout.fresh_log("podman-test")?;
    create_dir(&runtime_dir(place))?;
    let engine = dir(layout).join("engine");
    let mut environment = install::environment(layout)?;
    for (name, value) in &mut environment {
        let first = match *name {
            "PATH" => engine.join("usr/bin"),
            "LD_LIBRARY_PATH" => {
                engine.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
            }
            _ => continue,
        };
        *value = std::env::join_paths([first].into_iter().chain(std::env::split_paths(value)))?;
    }
    let mut process =
        Program::guarded("unshare", Duration::from_secs(10), Some(&place.pid_path()))?
            .args(OWN_WORLD)
            .args(["sh", "-c", SERVE, &host(place)])
            .envs(environment)
            .envs(configure(layout, place)?)
            .log_to(&log)?
            .spawn()?;
    let socket = socket(place);
    wait_ready(
        &mut process,
        &layout.stop,
        &log,
        Duration::from_secs(60),
        || {
            beat.beat();
            answers(&socket)
        },
    )?;
    example::provide(layout, place)?;
    Ok(process)
}

/// Nothing of it lies outside of its place; what it may lack on a machine like a CI's is not asked
/// for: control groups of systemd, a journal, higher limits.
fn configure(layout: &Layout, place: &Place) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let engine = dir(layout).join("engine");
    let runtime = install::runtime(layout).context("there is no runc")?;
    let file = |name: &str| place.file(name);
    // What JSON and TOML have in common is enough for a text.
    let containers = format!(
        "[containers]\ndefault_ulimits = []\n\
         [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         conmon_path = [{}]\nhelper_binaries_dir = [{}]\n\
         tmp_dir = {}\nstatic_dir = {}\nvolume_path = {}\n\
         [engine.runtimes]\nrunc = [{}]\n\
         [network]\ncni_plugin_dirs = [{}]\nnetwork_config_dir = {}\n",
        json!(engine.join("usr/bin/conmon")),
        json!(engine.join("usr/lib/podman")),
        json!(file("tmp")),
        json!(file("static")),
        json!(file("volumes")),
        json!(runtime),
        json!(engine.join("usr/lib/cni")),
        json!(file("networks")),
    );
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\nrunroot = {}\ngraphroot = {}\n",
        json!(file("run")),
        json!(file("graph")),
    );
    fs::write(file("containers.conf"), containers)?;
    fs::write(file("storage.conf"), storage)?;
    let home = file("home");
    let config = home.join(".config/containers");
    create_dir(&config)?;
    // Which signatures images need: none.
    let policy = json!({"default": [{"type": "insecureAcceptAnything"}]});
    fs::write(config.join("policy.json"), policy.to_string())?;
    Ok(vec![
        ("CONTAINERS_CONF", file("containers.conf")),
        ("CONTAINERS_STORAGE_CONF", file("storage.conf")),
        ("HOME", home),
    ])
}
