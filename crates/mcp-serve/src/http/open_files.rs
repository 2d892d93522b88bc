//! The limit of open files, of which each connection is one.

#[cfg(unix)]
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open files besides connections: ports, logs, children, databases and connections to the service.
#[cfg(unix)]
const OTHERS: u64 = 512;

/// Raises this process's limit of open files as far as it may, so that it can hold this many connections:
/// the usual soft limit is 1,024. Logs a warning if they are too few.
#[cfg(unix)]
pub(super) fn allow(connections: usize) {
    // A call may need a connection to the service, too.
    let needed = 2 * connections as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft >= needed {
        return;
    }
    let wanted = needed.min(hard);
    let files = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(_) => soft,
    };
    if files < needed {
        tracing::warn!(
            files,
            connections,
            "this process may open too few files for its connections; later ones wait: raise `ulimit -n`"
        );
    }
}

/// Does nothing: Windows has no such limit.
#[cfg(not(unix))]
pub(super) fn allow(_: usize) {}
