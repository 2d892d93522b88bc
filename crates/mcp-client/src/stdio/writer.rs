//! The one who writes to a child.

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that are written at once when the child is slower than we are.
const AT_ONCE: usize = 64;

/// Writes what is queued until the queue ends, the child stops reading, or `stop`; what was queued
/// before `stop` is still written. Ends by closing the child's stdin.
pub(super) async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<String>,
    stop: CancellationToken,
) {
    let mut messages = Vec::with_capacity(AT_ONCE);
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            received = queue.recv_many(&mut messages, AT_ONCE) => if received == 0 { return },
            () = stop.cancelled(), if !queue.is_closed() => { queue.close(); continue },
        }
        bytes.clear();
        for message in messages.drain(..) {
            bytes.extend_from_slice(message.as_bytes());
            bytes.push(b'\n');
        }
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
