//! The output of a command, in bounded memory.

use std::collections::VecDeque;

/// The beginning and the end of a stream.
#[derive(Debug)]
pub(crate) struct Output {
    room: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes between them that were not kept.
    pub(crate) omitted: usize,
}

impl Output {
    /// Keeps `room` bytes, most of them at the end, where programs report errors.
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

    /// Drops all output.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.room);
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let head = self.room / 4;
        let tail = self.room - head;
        let begin = (head - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..begin]);
        // Of a large chunk only the end fits.
        let rest = &bytes[begin..];
        let skipped = rest.len().saturating_sub(tail);
        self.omitted += skipped;
        self.tail.extend(&rest[skipped..]);
        let over = self.tail.len().saturating_sub(tail);
        self.tail.drain(..over);
        self.omitted += over;
    }

    /// The kept output, with a mark for omitted bytes.
    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.omitted == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&tail);
        format!("{head}\n… {} bytes left out …\n{tail}", self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let mut small = Output::new(100);
        small.push(b"one ");
        small.push(b"two");
        assert_eq!((small.text().as_str(), small.omitted), ("one two", 0));
        for size in [1, 999, 100_000] {
            let mut large = Output::new(7_000);
            let text = ["a".repeat(50_000), "z".repeat(50_000)].concat();
            let chunks = text.as_bytes().chunks(size);
            chunks.for_each(|chunk| large.push(chunk));
            assert_eq!(large.omitted, 100_000 - 7_000);
            let text = large.text();
            assert!(text.starts_with("aaa") && text.ends_with("zzz") && text.len() < 8_000);
        }
    }
}
