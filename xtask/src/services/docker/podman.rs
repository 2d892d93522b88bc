//! Podman, which shares the container runtime and the packet filter of the first engine.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{host, in_namespaces, packages};
use anyhow::Result;

use crate::install::debian::DebianPackages;
use crate::instance::Instance;
use crate::layout::{create_dir, on_path};
use crate::process::Program;

pub(super) const PACKAGES: DebianPackages = DebianPackages(
    "podman",
    "bookworm",
    "podman conmon containernetworking-plugins libassuan0 libgpgme11 libseccomp2 libsubid4",
);

/// Writes the configuration into the instance's folder and returns the command. Features that a CI machine may lack are
/// not used: control groups of systemd, a journal, higher limits.
pub(super) fn command(instance: &Instance, _: Option<&Path>) -> Result<Program> {
    let root = PACKAGES.root();
    let file = |name: &str| instance.file(name);
    let runc = ["usr/sbin/runc", "usr/bin/runc"].map(|runc| packages().root().join(runc));
    let runc: Vec<_> = runc.into_iter().chain(on_path("runc")).collect();
    // Strings and lists of strings look the same in JSON and TOML.
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
        json!(runc),
        json!(root.join("usr/lib/cni")),
        json!(file("networks")),
    );
    let (run, graph) = (json!(file("run")), json!(file("graph")));
    let storage = format!("[storage]\ndriver = \"vfs\"\nrunroot = {run}\ngraphroot = {graph}\n");
    let config = file("home/.config/containers");
    create_dir(&config)?;
    fs::write(file("containers.conf"), containers)?;
    fs::write(file("storage.conf"), storage)?;
    // Images need no signatures.
    let policy = json!({"default": [{"type": "insecureAcceptAnything"}]});
    fs::write(config.join("policy.json"), policy.to_string())?;
    Ok(in_namespaces("podman")
        .words("system service --time 0")
        .args([host(instance)])
        // Its monitor writes a file `oom` there.
        .dir(&instance.dir)
        .envs([
            ("CONTAINERS_CONF", file("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", file("storage.conf")),
            ("HOME", file("home")),
        ]))
}
