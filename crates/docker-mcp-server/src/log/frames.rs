//! The engine's log stream (`application/vnd.docker.raw-stream` and its multiplexed form).

use crate::engine::EngineError;

/// Bytes before each frame: the stream's number, three zeros, the length.
const HEADER: usize = 8;
/// As much of a frame as is waited for before its first part is handed on; a timestamp is shorter.
const START: usize = 64;

/// Takes a log stream apart, in whatever pieces it comes.
pub(crate) struct Frames {
    tty: bool,
    /// What was not handed on: less than a header, or less than the start of a frame.
    rest: Vec<u8>,
    /// The frame that is being read.
    open: Option<Open>,
}

struct Open {
    source: usize,
    missing: usize,
    at_start: bool,
}

/// Some bytes of a frame.
pub(crate) struct Part<'a> {
    /// 0 and 1 are stdout, 2 is stderr.
    pub(crate) source: usize,
    /// Whether a record of the log begins with them. Long lines are several records.
    pub(crate) at_start: bool,
    pub(crate) bytes: &'a [u8],
}

impl Frames {
    /// Containers with a terminal have a stream without frames.
    pub(crate) fn new(tty: bool) -> Self {
        Self {
            tty,
            rest: Vec::new(),
            open: None,
        }
    }

    /// Hands on what `piece` brings.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Part<'_>),
    ) -> Result<(), EngineError> {
        if self.tty {
            each(Part {
                source: 1,
                at_start: false,
                bytes: piece,
            });
            return Ok(());
        }
        self.rest.extend_from_slice(piece);
        let mut done = 0;
        loop {
            let ready = &self.rest[done..];
            let Some(open) = &mut self.open else {
                let Some(header) = ready.first_chunk::<HEADER>() else {
                    break;
                };
                self.open = Some(Open::read(header)?);
                done += HEADER;
                continue;
            };
            let available = ready.len().min(open.missing);
            if open.missing > 0 && available < open.missing.min(open.wanted()) {
                break;
            }
            each(Part {
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

impl Open {
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

    /// How many bytes make it worth handing on a part.
    fn wanted(&self) -> usize {
        if self.at_start { START } else { 1 }
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

    fn read(tty: bool, pieces: &[&[u8]]) -> Result<[String; 3], EngineError> {
        let mut streams = <[Vec<u8>; 3]>::default();
        let mut frames = Frames::new(tty);
        for piece in pieces {
            frames.push(piece, |part| streams[part.source].extend(part.bytes))?;
        }
        Ok(streams.map(|stream| String::from_utf8(stream).unwrap()))
    }

    #[test]
    fn frames_are_put_together_however_they_are_cut() {
        let long = "x".repeat(16_384);
        let stream = [
            frame(1, "one\n"),
            frame(2, "two\n"),
            frame(1, ""),
            frame(1, &long),
        ]
        .concat();
        let expected = [String::new(), format!("one\n{long}"), "two\n".to_owned()];
        for size in [1, 3, 7, 8, 9, 100, 40_000] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(read(false, &pieces).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn a_terminal_has_no_frames() {
        assert_eq!(read(true, &[b"a\r\n", b"b"]).unwrap()[1], "a\r\nb");
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        assert!(read(false, &[b"<html>no log</html>"]).is_err());
    }
}
