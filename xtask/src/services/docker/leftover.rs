//! What an engine leaves behind when it is killed: container processes and mounts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::proc::processes;

/// Removes the folder of an engine that no longer runs.
pub(crate) fn clear(dir: &Path) -> anyhow::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for pid in shims(dir).into_iter().chain(containers(dir)) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    for mount in mounts(dir) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&mount)
            .stderr(Stdio::null())
            .status();
    }
    fs::remove_dir_all(dir).with_context(|| format!("could not remove {}", dir.display()))
}

/// The processes that hold containers of this engine: they carry its folder as an argument.
fn shims(dir: &Path) -> Vec<Pid> {
    processes(|pid| is_shim(pid, dir))
}

fn is_shim(pid: i32, dir: &Path) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut args = command.split(|byte| *byte == 0);
    let is_shim = args
        .next()
        .is_some_and(|program| program.windows(15).any(|part| part == b"containerd-shim"));
    is_shim && args.any(|arg| Path::new(OsStr::from_bytes(arg)).starts_with(dir))
}

/// The first process of each container, which the others end with. The runtime's notes may
/// be old: a process counts only while it still lives in the control group of its container.
fn containers(dir: &Path) -> Vec<Pid> {
    let Ok(notes) = fs::read_dir(dir.join("exec/runtime-runc/moby")) else {
        return Vec::new();
    };
    let first_process = |container: fs::DirEntry| {
        let state = fs::read(container.path().join("state.json")).ok()?;
        let state: serde_json::Value = serde_json::from_slice(&state).ok()?;
        let pid = i32::try_from(state["init_process_pid"].as_i64()?).ok()?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        groups
            .contains(container.file_name().to_str()?)
            .then(|| Pid::from_raw(pid))
    };
    notes.flatten().filter_map(first_process).collect()
}

/// The mounts inside the folder, the innermost first.
fn mounts(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let targets = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(PathBuf::from);
    let mut inside: Vec<_> = targets.filter(|target| target.starts_with(dir)).collect();
    inside.reverse();
    inside
}
