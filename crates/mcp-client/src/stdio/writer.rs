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
            add_line(&message, &mut bytes);
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

/// Raw values keep the line breaks of whoever wrote them, and here a line break ends a message. In
/// JSON strings they are always escaped, so those that are left are white space.
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
    fn a_message_is_one_line_and_otherwise_keeps_its_bytes() {
        let mut bytes = b"{}\n".to_vec();
        add_line("{\"n\":1e400,\r\n \"t\":\"a\\nä\"}", &mut bytes);
        let lines = "{}\n{\"n\":1e400,   \"t\":\"a\\nä\"}\n";
        assert_eq!(bytes, lines.as_bytes());
    }
}
