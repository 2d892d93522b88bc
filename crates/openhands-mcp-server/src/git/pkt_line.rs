//! The framing of git's protocol: every packet begins with its length as four hexadecimal digits
//! (gitprotocol-common).

/// The packet without data, which ends a list.
pub(crate) const FLUSH: &[u8] = b"0000";

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
pub(crate) struct Packets {
    bytes: Vec<u8>,
    /// The bytes of packets that were read. They are removed with the next chunk: to remove each packet would
    /// move all others, 500,000 times in a large list.
    read: usize,
}

impl Packets {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// The next packet; `None` if it has not arrived as a whole.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, Malformed> {
        let bytes = self.bytes.get(self.read..).unwrap_or_default();
        let Some(digits) = bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        // Not even a sign.
        let is_number = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
        let length = usize::from_str_radix(digits.ok_or(Malformed)?, 16).map_err(|_| Malformed)?;
        if length == 0 {
            self.read += 4;
            return Ok(Some(Packet::Flush));
        }
        let data = match bytes.get(4..length) {
            Some(data) => data.to_vec(),
            None if length < 4 => return Err(Malformed),
            None => return Ok(None),
        };
        self.read += length;
        Ok(Some(Packet::Data(data)))
    }

    /// Returns true if all bytes were packets.
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.bytes.len()
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
    fn long_list_takes_time_in_proportion_to_its_length() {
        // With a copy of the rest for each packet this took minutes.
        let mut sent = Vec::new();
        (0..200_000).for_each(|_| push_line(&mut sent, &"x".repeat(60)));
        let (mut packets, mut read) = (Packets::default(), 0);
        packets.push(&sent);
        while packets.next().unwrap().is_some() {
            read += 1;
        }
        assert!(read == 200_000 && packets.is_empty());
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
