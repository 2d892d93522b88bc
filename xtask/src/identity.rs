//! Is the process of a pid file still the one that was meant?
//!
//! A process id alone is reused by the system; together with the time at which the
//! process started it is not. Without `/proc` nothing is ever taken for our own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::stop::Stop;
use crate::sweep::sweep;

/// The leader of a process group that an earlier run may have left behind.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// The file at this path, whether it exists or not.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Notes which process it is.
    pub(crate) fn write(&self, pid: Pid) -> anyhow::Result<()> {
        let started = start_time(pid).unwrap_or_default();
        fs::write(&self.0, format!("{pid} {started}\n"))
            .with_context(|| format!("could not write {}", self.0.display()))
    }

    /// Forgets the process.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.0);
    }

    /// The noted process, if exactly that one still runs.
    pub(crate) fn running(&self) -> Option<Pid> {
        let (pid, started) = parse(&fs::read_to_string(&self.0).ok()?)?;
        (start_time(pid)? == started).then_some(pid)
    }

    /// Ends what an earlier, killed run left behind; true when that still ran.
    pub(crate) fn stop_leftover(&self, stop: &Stop, grace: Duration) -> bool {
        let leftover = self.running();
        if let Some(group) = leftover {
            for signal in [Signal::SIGTERM, Signal::SIGKILL] {
                // The leader leads its own group: the guard started it so.
                let _ = killpg(group, signal);
                if stop.wait_until(grace, || self.running().is_none()) {
                    break;
                }
            }
        }
        // The guard marked its child with the path of this file.
        sweep(self.0.as_os_str());
        self.remove();
        leftover.is_some()
    }
}

fn parse(text: &str) -> Option<(Pid, u64)> {
    let (pid, started) = text.trim().split_once(' ')?;
    // Zero and one would address our own group or init.
    let pid = pid.parse().ok().filter(|pid| *pid > 1)?;
    Some((Pid::from_raw(pid), started.parse().ok()?))
}

/// Clock ticks between boot and the start of the process.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket is plain.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_process_by_its_start_time() {
        let own = Pid::this();
        let path = std::env::temp_dir().join(format!("xtask-identity-{own}"));
        let file = PidFile::at(path.clone());
        file.write(own).unwrap();
        assert_eq!(file.running(), Some(own));

        fs::write(&path, format!("{own} 1\n")).unwrap();
        assert_eq!(file.running(), None, "same id, other process");
        file.remove();
        assert_eq!(file.running(), None);
    }

    #[test]
    fn refuses_what_would_hit_other_groups() {
        for text in ["", "0 5", "1 5", "-7 5", "12", "x y"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
