//! Fields of Protocol Buffers, written in order. The messages of OTLP are few and flat, so that their types would be
//! longer than the lines that write them.

use prost::encoding::{WireType, decode_key, decode_varint, encode_varint, encoded_len_varint};

/// Writes the fields of one message.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    /// Writes bytes, a string or a message that is encoded already.
    pub(crate) fn bytes(&mut self, tag: u32, value: &[u8]) {
        self.start(tag, value.len());
        self.0.extend_from_slice(value);
    }

    /// Writes the start of such a field, whose value has this length.
    pub(crate) fn start(&mut self, tag: u32, len: usize) {
        self.tag(tag, WireType::LengthDelimited);
        self.number(len as u64);
    }

    /// Writes a string that consists of these parts.
    pub(crate) fn concat(&mut self, tag: u32, parts: &[&[u8]]) {
        self.start(tag, parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
    }

    /// Writes an enum or an unsigned number.
    pub(crate) fn varint(&mut self, tag: u32, value: u64) {
        self.tag(tag, WireType::Varint);
        self.number(value);
    }

    /// Writes the number of a field, and the type of its value.
    fn tag(&mut self, tag: u32, value: WireType) {
        self.number(u64::from(tag) << 3 | value as u64);
    }

    /// Writes a number without a field. Most are small, and a loop over their bytes is a third of the work of a span.
    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte @ 0..0x80) => self.0.push(byte),
            _ => encode_varint(number, self.0),
        }
    }

    pub(crate) fn fixed64(&mut self, tag: u32, value: u64) {
        self.tag(tag, WireType::SixtyFourBit);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, tag: u32, value: f64) {
        self.fixed64(tag, value.to_bits());
    }

    /// Writes a message.
    pub(crate) fn message(&mut self, tag: u32, fields: impl FnOnce(&mut Writer<'_>)) {
        let mut message = Vec::new();
        fields(&mut Writer(&mut message));
        self.bytes(tag, &message);
    }

    /// Writes a `KeyValue` with a text.
    pub(crate) fn attribute(&mut self, tag: u32, key: &str, value: &str) {
        let value_len = 1 + encoded_len_varint(value.len() as u64) + value.len();
        self.key(tag, key, value_len);
        self.bytes(1, value.as_bytes());
    }

    /// Writes a `KeyValue` with a number.
    pub(crate) fn number_attribute(&mut self, tag: u32, key: &str, value: u64) {
        self.key(tag, key, 1 + encoded_len_varint(value));
        self.varint(3, value);
    }

    /// Writes a `KeyValue` up to its `AnyValue`, of this length.
    fn key(&mut self, tag: u32, key: &str, value_len: usize) {
        let key_len = 1 + encoded_len_varint(key.len() as u64) + key.len();
        let len = key_len + 1 + encoded_len_varint(value_len as u64) + value_len;
        self.start(tag, len);
        self.bytes(1, key.as_bytes());
        self.start(2, value_len);
    }
}

/// Reads the fields of one message, up to the first that is damaged.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

/// The value of a field. Those of fixed size are left out.
pub(crate) enum Value<'a> {
    Number(u64),
    /// Bytes, a string or a message.
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let (tag, wire_type) = decode_key(&mut self.0).ok()?;
            let skipped = match wire_type {
                WireType::Varint => {
                    return Some((tag, Value::Number(decode_varint(&mut self.0).ok()?)));
                }
                WireType::LengthDelimited => {
                    let len = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
                    let (value, rest) = self.0.split_at_checked(len)?;
                    self.0 = rest;
                    return Some((tag, Value::Bytes(value)));
                }
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::StartGroup | WireType::EndGroup => return None,
            };
            self.0 = self.0.get(skipped..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_key_values_of_the_specification() {
        let mut bytes = Vec::new();
        let mut writer = Writer(&mut bytes);
        writer.attribute(9, "a", "xyz");
        writer.number_attribute(9, "b", 300);
        let expected = [
            &b"\x4a\x0a\x0a\x01a\x12\x05\x0a\x03xyz"[..],
            b"\x4a\x08\x0a\x01b\x12\x03\x18\xac\x02",
        ];
        assert_eq!(bytes, expected.concat());
        let long = "x".repeat(200);
        bytes.clear();
        Writer(&mut bytes).attribute(1, &long, &long);
        // The length of all after the first three bytes.
        assert_eq!(bytes[1..3], [0x99, 0x03]);
        assert_eq!(bytes.len(), 3 + 0x199);
    }
}
