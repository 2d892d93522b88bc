//! Podman behind the interface of Docker, for the tests: Debian's, unpacked beside the engines, whose
//! container runtime and packet filter it shares. It has no daemon, and would leave containers behind
//! when it is killed.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{
    Engine, Environment, Service, environment, host, in_own_world, packages, runtime_dir, start,
};
use crate::install::debian::Packages;
use crate::instance::Instance;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Process;

/// Podman 4.3.
const PACKAGES: Packages = Packages {
    who: "podman",
    folder: "podman",
    suite: Some("bookworm"),
    names: &[
        "podman",
        "conmon",
        "containernetworking-plugins",
        "libassuan0",
        "libgpgme11",
        "libseccomp2",
        "libsubid4",
    ],
};

/// Podman as a service.
#[derive(Debug)]
pub(crate) struct Podman;

impl Service for Podman {
    fn name(&self) -> &'static str {
        "podman"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        Engine.obstacle(layout)
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        Engine.install(layout)?;
        PACKAGES.install(layout)
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        create_dir(&runtime_dir(instance))?;
        let root = PACKAGES.root(layout);
        let program = in_own_world("podman")?
            .words("system service --time 0")
            .args([host(instance)])
            .envs(environment(layout, Some(root))?)
            .envs(configure(layout, instance)?);
        start(layout, instance, "podman", program)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        vec![("MCP_TEST_PODMAN_HOST", host(instance).into())]
    }
}

/// Writes its configuration. Nothing of it lies outside of its folder; what it may lack on a machine
/// like a CI's is not asked for: control groups of systemd, a journal, higher limits.
fn configure(layout: &Layout, instance: &Instance) -> anyhow::Result<Environment> {
    let root = PACKAGES.root(layout);
    let file = |name: &str| instance.file(name);
    // What JSON and TOML have in common is enough for a text.
    let containers = format!(
        "[containers]\ndefault_ulimits = []\n\
         [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         conmon_path = [{}]\nhelper_binaries_dir = [{}]\n\
         tmp_dir = {}\nstatic_dir = {}\nvolume_path = {}\n\
         [engine.runtimes]\nrunc = {}\n\
         [network]\ncni_plugin_dirs = [{}]\nnetwork_config_dir = {}\n",
        json!(root.join("usr/bin/conmon")),
        json!(root.join("usr/lib/podman")),
        json!(file("tmp")),
        json!(file("static")),
        json!(file("volumes")),
        json!(runtimes(layout)),
        json!(root.join("usr/lib/cni")),
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
        ("CONTAINERS_CONF", file("containers.conf").into()),
        ("CONTAINERS_STORAGE_CONF", file("storage.conf").into()),
        ("HOME", home.into()),
    ])
}

/// Returns where the container runtime may be; Podman takes the first that exists.
fn runtimes(layout: &Layout) -> Vec<PathBuf> {
    let root = packages().root(layout);
    let unpacked = ["usr/sbin/runc", "usr/bin/runc"].map(|file| root.join(file));
    unpacked.into_iter().chain(on_path("runc")).collect()
}
