//! The processes of this machine.

use std::fs;

use nix::unistd::Pid;

/// The processes of this machine that `matches` picks by their number.
pub(crate) fn processes(matches: impl Fn(i32) -> bool) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| matches(*pid))
        .map(Pid::from_raw)
        .collect()
}
