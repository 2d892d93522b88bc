//! A child process, which is ended with all that it has started.
//!
//! | system | on a drop | when this process is killed |
//! |---|---|---|
//! | Linux | the reaper kills all descendants, else the process group is killed | the reaper kills all descendants |
//! | Windows | its job object is closed, which kills all descendants | the system closes the job object |
//! | macOS and others | the process group is killed | its stdin is closed; servers exit then |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

#[cfg(target_os = "linux")]
pub(super) use self::linux::ChildProcess;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::ChildProcess;
use super::command::Command;

/// The standard streams of a child.
pub(super) type Streams = (ChildStdin, ChildStdout, ChildStderr);
