//! The framing of git's protocol: every packet begins with its length as four hexadecimal digits
//! (gitprotocol-common).

/// The packet without data, which ends a list.
pub(crate) const FLUSH: &[u8] = b"0000";

/// A received packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Flush,
    Data(Vec<u8>),
}

/// The bytes are not packets.
#[derive(Debug)]
pub(crate) struct Malformed;

/// Appends a packet with this line.
pub(crate) fn push_line(packets: &mut Vec<u8>, line: &str) {
    let length = line.len() + 4;
    packets.extend_from_slice(format!("{length:04x}{line}").as_bytes());
}

/// Packets that arrive in chunks of any size.
#[derive(Default)]
pub(crate) struct Packets(Vec<u8>);

impl Packets {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }

    /// The next packet; `None` if it has not arrived as a whole.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, Malformed> {
        let Some(digits) = self.0.first_chunk::<4>() else {
            return Ok(None);
        };
        // Not even a sign.
        let is_number = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
        let length = usize::from_str_radix(digits.ok_or(Malformed)?, 16).map_err(|_| Malformed)?;
        if length == 0 {
            self.0.drain(..4);
            return Ok(Some(Packet::Flush));
        }
        let data = match self.0.get(4..length) {
            Some(data) => data.to_vec(),
            None if length < 4 => return Err(Malformed),
            None => return Ok(None),
        };
        self.0.drain(..length);
        Ok(Some(Packet::Data(data)))
    }

    /// Returns true if all bytes were packets.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_from_chunks_of_any_size() {
        let mut sent = Vec::new();
        push_line(&mut sent, "want\n");
        sent.extend_from_slice(FLUSH);
        push_line(&mut sent, "");
        for size in 1..sent.len() {
            let (mut packets, mut read) = (Packets::default(), Vec::new());
            for chunk in sent.chunks(size) {
                packets.push(chunk);
                while let Some(packet) = packets.next().unwrap() {
                    read.push(packet);
                }
            }
            let data = |text: &str| Packet::Data(text.into());
            assert_eq!(read, [data("want\n"), Packet::Flush, data("")]);
            assert!(packets.is_empty());
        }
    }

    #[test]
    fn other_bytes_are_malformed() {
        for bytes in [&b"<html>"[..], b"0001", b"0003", b"+00a", &[0xff; 4]] {
            let mut packets = Packets::default();
            packets.push(bytes);
            assert!(packets.next().is_err(), "{bytes:?}");
        }
    }
}
