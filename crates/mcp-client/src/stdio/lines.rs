//! Reads lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// The kind of content that [`next`] has put into the buffer.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// A line, without its end; the last one may lack it.
    Whole,
    /// The beginning of a line that exceeds the limit, one byte longer than it. The next call reads the
    /// rest.
    Part,
    /// Nothing: the stream has ended.
    End,
}

/// Reads the next line into `line`, reusing its allocation.
pub(crate) async fn next(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    line.clear();
    // One more byte, for the line end.
    let mut bounded = reader.take(limit as u64 + 1);
    let read = bounded.read_until(b'\n', line).await?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Line::Whole);
    }
    Ok(match read {
        0 => Line::End,
        read if read > limit => Line::Part,
        _ => Line::Whole,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn read(input: &str, capacity: usize, limit: usize) -> Vec<(Line, String)> {
        let mut reader = BufReader::with_capacity(capacity, input.as_bytes());
        let mut line = Vec::new();
        let mut lines = Vec::new();
        loop {
            match next(&mut reader, &mut line, limit).await.unwrap() {
                Line::End => return lines,
                kind => lines.push((kind, String::from_utf8(line.clone()).unwrap())),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_whole_with_any_buffer_size() {
        for capacity in 1..12 {
            let lines = read("ab\n\ncdef\ng", capacity, 4).await;
            let expected = ["ab", "", "cdef", "g"].map(|line| (Line::Whole, line.to_owned()));
            assert_eq!(lines, expected, "capacity {capacity}");
        }
    }

    #[tokio::test]
    async fn long_lines_come_in_parts() {
        for capacity in 1..12 {
            let lines = read("abcdefg\nh\n", capacity, 3).await;
            let expected = [
                (Line::Part, "abcd".to_owned()),
                (Line::Whole, "efg".to_owned()),
                (Line::Whole, "h".to_owned()),
            ];
            assert_eq!(lines, expected, "capacity {capacity}");
        }
    }
}
