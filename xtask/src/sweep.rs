//! Processes that left their group: found by a mark in the environment they inherited.
//!
//! A terminal multiplexer, for one, makes itself a daemon; it outlives the process group
//! of the service that started it, but not this mark. Without `/proc` there is no sweep.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::proc::processes;

/// The variable of the environment that carries the mark.
pub(crate) const MARK: &str = "XTASK_CHILD_OF";

/// Ends every process with this mark, gently and then not.
pub(crate) fn sweep(mark: &OsStr) {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let marked = marked(mark);
        if marked.is_empty() {
            return;
        }
        for pid in marked {
            let _ = kill(pid, signal);
        }
        thread::sleep(Duration::from_millis(300));
    }
}

fn marked(mark: &OsStr) -> Vec<Pid> {
    let wanted = [MARK.as_bytes(), b"=", mark.as_bytes()].concat();
    processes(|pid| has(pid, &wanted))
}

fn has(pid: i32, wanted: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marked = environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == wanted);
    // These hold containers; an engine finds them when it starts again, and ends both.
    let holds_container = || {
        fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(b"containerd-shim"))
    };
    marked && !holds_container()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ends_what_carries_the_mark_and_nothing_else() {
        let sleeper = |mark: &str| {
            let mut sleep = Command::new("sleep");
            sleep
                .arg("600")
                .env(MARK, mark)
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        let own = format!("test-{}", std::process::id());
        let mut swept = sleeper(&own);
        let mut other = sleeper(&format!("{own}-other"));
        sweep(OsStr::new(&own));
        assert!(!swept.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
