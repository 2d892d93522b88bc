//! Supervises one child in one task that can be aborted.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::process::ChildProcess;
use super::{Connected, stderr, writer};

/// Timeout of reading the last output of a child, and of its exit after it has closed stdout.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs until the child and its group are gone.
pub(super) async fn supervise(mut process: ChildProcess, connected: Connected) {
    let Connected {
        reader,
        queue,
        stop,
        ended,
    } = connected;
    let _ended = ended.drop_guard();
    let pending = reader.pending.clone();
    let peer = reader.peer.clone();
    let Some((stdin, stdout, stderr)) = process.streams() else {
        return pending.close("it has no standard streams".to_owned());
    };

    let _writing = spawn(writer::write(stdin, queue, stop.clone()));
    let forwarding = stderr::forward(peer.clone(), reader.inbound.clone(), stderr);
    let mut logging = spawn(forwarding);
    let mut reading = spawn(async move { reader.read(stdout).await });

    tokio::select! {
        status = process.wait() => {
            let reason = exit(status);
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            pending.close(reason);
        }
        fault = &mut reading => {
            let reason = match fault.ok().flatten() {
                Some(fault) => fault,
                None => match timeout(DRAIN_TIMEOUT, process.wait()).await {
                    Ok(status) => exit(status),
                    Err(_) => "it closed its output".to_owned(),
                },
            };
            pending.close(reason);
            stop.cancel();
            let _ = process.end().await;
            drop(process);
            let _ = timeout(DRAIN_TIMEOUT, &mut logging).await;
        }
        () = stop.cancelled() => {
            let status = process.end().await;
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            tracing::debug!(peer = %peer, end = exit(status), "child ended");
            pending.close("it was closed".to_owned());
        }
    }
}

fn exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its exit status cannot be read: {error}"),
    }
}

/// Reads the rest of an ended child's output. A process that still holds the pipes has left the group
/// on purpose, and is not waited for.
async fn drain_output(
    reading: &mut AbortOnDropHandle<Option<String>>,
    logging: &mut AbortOnDropHandle<()>,
) {
    let both = async { tokio::join!(reading, logging) };
    let _ = timeout(DRAIN_TIMEOUT, both).await;
}

fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(work))
}
