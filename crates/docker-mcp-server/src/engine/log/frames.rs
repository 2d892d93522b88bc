//! Decoder of the engine's log stream (`application/vnd.docker.raw-stream` and its multiplexed form).

use crate::engine::error::EngineError;

/// Bytes of the header of a frame: the stream's number, three zeros, the length.
const HEADER: usize = 8;
/// Fewest bytes of the first part of a frame, unless the frame is shorter; a timestamp fits into it.
const MIN_FIRST_PART: usize = 64;

/// Decodes a log stream from chunks of any size.
pub(crate) struct FrameDecoder {
    tty: bool,
    /// Buffered bytes: less than a header, or less than the first part of a frame.
    rest: Vec<u8>,
    /// The current frame.
    open: Option<OpenFrame>,
}

struct OpenFrame {
    source: usize,
    missing: usize,
    at_start: bool,
}

/// Some bytes of a frame.
pub(crate) struct FramePart<'a> {
    /// 0 and 1 are stdout, 2 is stderr.
    pub(crate) source: usize,
    /// Whether they begin a record of the log. Long lines are several records.
    pub(crate) at_start: bool,
    pub(crate) bytes: &'a [u8],
}

impl FrameDecoder {
    /// Returns a decoder. With a terminal (`tty`), the stream has no frames.
    pub(crate) fn new(tty: bool) -> Self {
        Self {
            tty,
            rest: Vec::new(),
            open: None,
        }
    }

    /// Decodes a chunk and calls `each` with the parts in it.
    pub(crate) fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(FramePart<'_>),
    ) -> Result<(), EngineError> {
        if self.tty {
            each(FramePart {
                source: 1,
                at_start: false,
                bytes: chunk,
            });
            return Ok(());
        }
        self.rest.extend_from_slice(chunk);
        let mut done = 0;
        loop {
            let ready = &self.rest[done..];
            let Some(open) = &mut self.open else {
                let Some(header) = ready.first_chunk::<HEADER>() else {
                    break;
                };
                self.open = Some(OpenFrame::read(header)?);
                done += HEADER;
                continue;
            };
            let available = ready.len().min(open.missing);
            let enough = if open.at_start { MIN_FIRST_PART } else { 1 };
            if open.missing > 0 && available < open.missing.min(enough) {
                break;
            }
            each(FramePart {
                source: open.source,
                at_start: open.at_start,
                bytes: &ready[..available],
            });
            done += available;
            open.missing -= available;
            open.at_start = false;
            if open.missing == 0 {
                self.open = None;
            }
        }
        self.rest.drain(..done);
        Ok(())
    }
}

impl OpenFrame {
    fn read(header: &[u8; HEADER]) -> Result<Self, EngineError> {
        let [source @ 0..=2, 0, 0, 0, length @ ..] = *header else {
            return Err(EngineError::unreadable("a log frame without a header"));
        };
        Ok(Self {
            source: source.into(),
            missing: u32::from_be_bytes(length) as usize,
            at_start: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: u8, text: &str) -> Vec<u8> {
        let mut frame = vec![source, 0, 0, 0];
        frame.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        frame.extend(text.as_bytes());
        frame
    }

    fn read(tty: bool, chunks: &[&[u8]]) -> Result<[String; 3], EngineError> {
        let mut streams = <[Vec<u8>; 3]>::default();
        let mut decoder = FrameDecoder::new(tty);
        for chunk in chunks {
            decoder.push(chunk, |part| streams[part.source].extend(part.bytes))?;
        }
        Ok(streams.map(|stream| String::from_utf8(stream).unwrap()))
    }

    #[test]
    fn frames_are_decoded_from_chunks_of_any_size() {
        let long = "x".repeat(16_384);
        let frames = [(1, "one\n"), (2, "two\n"), (1, ""), (1, &long)];
        let stream = frames.map(|(source, text)| frame(source, text)).concat();
        let expected = [String::new(), format!("one\n{long}"), "two\n".to_owned()];
        for size in [1, 3, 7, 8, 9, 100, 40_000] {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(read(false, &chunks).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn a_terminal_stream_has_no_frames() {
        assert_eq!(read(true, &[b"a\r\n", b"b"]).unwrap()[1], "a\r\nb");
    }

    #[test]
    fn an_invalid_frame_is_an_error() {
        assert!(read(false, &[b"<html>no log</html>"]).is_err());
    }
}
