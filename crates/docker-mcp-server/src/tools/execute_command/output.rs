//! The output of a command, in bounded memory.

use std::collections::VecDeque;

/// Most bytes that are kept of the beginning, and of the end.
const HEAD: usize = 2_000;
const TAIL: usize = 5_000;

/// The beginning and the end of a stream.
#[derive(Debug, Default)]
pub(super) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes between them that were not kept.
    pub(super) omitted: usize,
}

impl Output {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = (HEAD - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        // Of a large piece only the end can stay.
        let rest = &bytes[room..];
        let skipped = rest.len().saturating_sub(TAIL);
        self.omitted += skipped;
        self.tail.extend(&rest[skipped..]);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.omitted += over;
    }

    /// What was kept, with a mark where something is missing.
    pub(super) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.omitted == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let (head, tail) = (
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail),
        );
        format!("{head}\n… {} bytes left out …\n{tail}", self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let mut small = Output::default();
        small.push(b"one ");
        small.push(b"two");
        assert_eq!((small.text().as_str(), small.omitted), ("one two", 0));
        for size in [1, 999, 100_000] {
            let mut large = Output::default();
            let text = ["a".repeat(50_000), "z".repeat(50_000)].concat();
            text.as_bytes()
                .chunks(size)
                .for_each(|piece| large.push(piece));
            assert_eq!(large.omitted, 100_000 - HEAD - TAIL);
            let text = large.text();
            assert!(text.starts_with("aaa") && text.ends_with("zzz") && text.len() < 8_000);
        }
    }
}
