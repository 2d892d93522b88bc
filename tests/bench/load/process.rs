//! CPU time and memory of a process, from the kernel.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Linux reports CPU time in hundredths of a second.
const CPU_TICK: Duration = Duration::from_millis(10);

/// CPU time of all threads of the process so far.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
    let mut ticks = fields.split(' ').skip(11).map(str::parse::<u32>);
    let (Some(Ok(user)), Some(Ok(system))) = (ticks.next(), ticks.next()) else {
        anyhow::bail!("no times in stat");
    };
    Ok(CPU_TICK * (user + system))
}

/// Resident memory of the process, in KiB.
pub(crate) fn memory(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(size.context("no size in status")?.parse()?)
}
