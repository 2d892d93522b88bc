//! Several messages of a client in one frame.

use bytes::Bytes;

/// A batch that is written, or one message alone. Its messages are a part of a batch that a client has sent, so it is
/// no longer than that.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    messages: usize,
}

impl Batch {
    /// Adds a message.
    pub(super) fn add(&mut self, message: &[u8]) {
        self.bytes
            .push(if self.messages == 0 { b'[' } else { b',' });
        self.bytes.extend_from_slice(message);
        self.messages += 1;
    }

    /// Returns the frame. There is at least one message.
    pub(super) fn end(mut self) -> Bytes {
        if self.messages == 1 {
            // Not every revision has batches.
            return Bytes::from(self.bytes).slice(1..);
        }
        self.bytes.push(b']');
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_frame() {
        let batch = |messages: &[&str]| {
            let mut batch = Batch::default();
            for message in messages {
                batch.add(message.as_bytes());
            }
            batch.end()
        };
        assert_eq!(&*batch(&["{}"]), b"{}");
        assert_eq!(&*batch(&["{}", "{\"a\":1}", "1"]), b"[{},{\"a\":1},1]");
    }
}
