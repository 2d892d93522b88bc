//! Eight bytes at a time: a mark for the first byte of a kind. Bytes behind the first may be marked by mistake.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// Eight bytes of a text, in their order.
#[derive(Clone, Copy)]
pub(super) struct Word(u64);

/// The marks of some bytes.
#[derive(Clone, Copy)]
pub(super) struct Marks(u64);

impl Word {
    pub(super) fn new(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    /// Marks this byte, which is ASCII.
    pub(super) fn equal(self, byte: u8) -> Marks {
        let word = self.0 ^ (ONES * u64::from(byte));
        Marks(word.wrapping_sub(ONES) & !word & HIGH)
    }

    /// Marks bytes that are less than this one, which is ASCII.
    pub(super) fn less(self, byte: u8) -> Marks {
        Marks(self.0.wrapping_sub(ONES * u64::from(byte)) & !self.0 & HIGH)
    }
}

impl Marks {
    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The place of the first.
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_byte_is_found_at_each_place() {
        for byte in [0, 0x1f, b' ', b'"', b'\\', b'z', 0x7f, 0x80, 0xff] {
            for at in 0..8 {
                let mut bytes = *b"zzzzzzzz";
                bytes[at] = byte;
                let word = Word::new(bytes);
                let equal = bytes.iter().position(|byte| *byte == b'"');
                assert_eq!(word.equal(b'"').first(), equal, "{bytes:?}");
                let less = bytes.iter().position(|byte| *byte < b' ');
                assert_eq!(word.less(b' ').first(), less, "{bytes:?}");
                let either = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                let marks = word.equal(b'"').or(word.equal(b'\\'));
                assert_eq!(marks.first(), either, "{bytes:?}");
            }
        }
    }
}
