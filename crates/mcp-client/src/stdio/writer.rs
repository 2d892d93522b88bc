//! Writes queued messages to a child's stdin.

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Limit of one write, in bytes. More messages stay in the queue, which is bounded.
const MAX_WRITE: usize = 64 << 10;

/// Writes messages until the queue is closed, the child stops reading, or `stop`; messages that were
/// queued before `stop` are still written. Then closes the child's stdin.
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
            add_line(&message, &mut bytes);
            next = match bytes.len() < MAX_WRITE {
                true => queue.try_recv().ok(),
                false => None,
            };
        }
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Adds a message with its line breaks replaced by blanks: raw values keep their line breaks, but here
/// a line break ends a message. Line breaks outside of JSON strings are white space, and within them
/// they are escaped.
fn add_line(message: &str, bytes: &mut Vec<u8>) {
    let is_break = |byte| matches!(byte, b'\n' | b'\r');
    let unbroken = |byte| if is_break(byte) { b' ' } else { byte };
    bytes.extend(message.bytes().map(unbroken));
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_keep_their_other_bytes() {
        let mut bytes = b"{}\n".to_vec();
        add_line("{\"n\":1e400,\r\n \"t\":\"a\\nä\"}", &mut bytes);
        let lines = "{}\n{\"n\":1e400,   \"t\":\"a\\nä\"}\n";
        assert_eq!(bytes, lines.as_bytes());
    }
}
