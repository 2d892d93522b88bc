//! Everything that runs for one child, in one task that can be dropped.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::process::Process;
use super::reader::{self, Reader};
use super::writer;

/// How long the last words of a child may take to arrive, and a child without stdout to exit.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs until the child and its group are gone.
pub(super) async fn supervise(
    mut child: Child,
    reader: Reader,
    queue: mpsc::Receiver<String>,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    let _ended = ended.drop_guard();
    let pending = reader.pending.clone();
    let peer = reader.peer.clone();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut process = Process::new(child);
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return pending.close("it has no standard streams".to_owned());
    };

    let mut tasks = JoinSet::new();
    tasks.spawn(writer::write(stdin, queue, stop.clone()));
    tasks.spawn(reader::log(peer.clone(), stderr));
    let mut reading = AbortOnDrop(tokio::spawn(async move { reader.read(stdout).await }));

    tokio::select! {
        status = process.wait() => {
            let reason = exit(status);
            // Whoever still holds the pipe is of its group, or has left it on purpose.
            drop(process);
            let _ = timeout(LAST_WORDS, &mut reading.0).await;
            pending.close(reason);
        }
        fault = &mut reading.0 => {
            let reason = match fault.ok().flatten() {
                Some(fault) => fault,
                None => match timeout(LAST_WORDS, process.wait()).await {
                    Ok(status) => exit(status),
                    Err(_) => "it closed its output".to_owned(),
                },
            };
            pending.close(reason);
            stop.cancel();
            let _ = process.end().await;
        }
        () = stop.cancelled() => {
            let status = process.end().await;
            drop(process);
            let _ = timeout(LAST_WORDS, &mut reading.0).await;
            tracing::debug!(peer = %peer, end = exit(status), "child ended");
            pending.close("it was closed".to_owned());
        }
    }
}

fn exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its end cannot be seen: {error}"),
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
