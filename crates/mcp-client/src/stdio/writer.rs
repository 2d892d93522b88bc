//! The one who writes to a child.

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Bytes that are written at once when the child is slower than we are; more is left in the queue,
/// whose bound counts.
const AT_ONCE: usize = 64 << 10;

/// Writes what is queued until the queue ends, the child stops reading, or `stop`; what was queued
/// before `stop` is still written. Ends by closing the child's stdin.
pub(super) async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<String>,
    stop: CancellationToken,
) {
    let mut bytes = Vec::new();
    loop {
        let mut next = tokio::select! {
            message = queue.recv() => match message {
                None => return,
                message => message,
            },
            () = stop.cancelled(), if !queue.is_closed() => { queue.close(); continue },
        };
        bytes.clear();
        while let Some(message) = next {
            bytes.extend_from_slice(message.as_bytes());
            bytes.push(b'\n');
            next = match bytes.len() < AT_ONCE {
                true => queue.try_recv().ok(),
                false => None,
            };
        }
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
