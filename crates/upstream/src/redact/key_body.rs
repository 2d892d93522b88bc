//! Recognises the body of a private key by its shape: a log may be cut anywhere in the key, so that its
//! first or its last line is missing.

use super::HIDDEN;

/// Characters of a line: of OpenSSL, PuTTY and PGP, of OpenSSH, of SSH2, of MIME.
const LINE_LENGTHS: [usize; 4] = [64, 70, 72, 76];
/// The fewest characters of a line of any other width, which is known by its neighbours.
const MIN_LINE: usize = 40;
/// The fewest characters of the last line, which is shorter, if no end of a key follows.
const MIN_LAST_LINE: usize = 8;
/// The fewest characters of a last line that is the first line which is seen, if it is not padded.
const MIN_LONE_LINE: usize = 16;
/// The line that PuTTY writes after a key.
const PUTTY_END: &str = "Private-MAC: ";
/// The most lines of a private key, with its first and its last one.
const MAX_KEY_LINES: usize = 120;

/// Recognises the lines of keys in a text that arrives line by line, so that only the lines before are known. It
/// hides more than [`hide_bodies`]: each line that is nothing but a long text in Base64.
#[derive(Debug, Default)]
pub(super) struct KeyLines {
    /// The lines that may follow in a key whose first line was seen.
    left: usize,
    /// The length of the line before, if it was a full line of a key.
    width: usize,
    /// A line was seen.
    started: bool,
}

impl KeyLines {
    /// Whether the next line is a part of a key.
    pub(super) fn is_next(&mut self, text: &str) -> bool {
        let line = line(text, 0, text.len());
        let is_first = !std::mem::replace(&mut self.started, true);
        let (inside, width) = (self.left > 0, std::mem::take(&mut self.width));
        if line.ends_key || text.contains("--END ") {
            self.left = 0;
            return inside || line.ends_key;
        }
        if text.contains("--BEGIN ") && text.contains("PRIVATE KEY") {
            self.left = MAX_KEY_LINES;
            return true;
        }
        self.left = self.left.saturating_sub(1);
        let is_word = line.run.len() >= MIN_LAST_LINE && (is_mixed(line.run) || line.is_padded);
        let is_long = line.is_bare && line.run.len() >= MIN_LINE;
        if has_key_width(line.run) || is_long && is_word {
            self.width = line.run.len();
            return true;
        }
        let is_last = line.is_bare && is_word && line.run.len() <= width;
        // All that is seen of a key is its last line.
        let is_rest = is_first && line.is_bare && is_word;
        let is_last = is_last || is_rest && (line.is_padded || line.run.len() >= MIN_LONE_LINE);
        inside || is_last
    }
}

/// `text` without the lines of keys, and how many there were; `None` for a text without keys.
pub(super) fn hide_bodies(text: &str) -> Option<(String, u32)> {
    let ends = ["--- END ", "----END ", PUTTY_END];
    if !has_long_run(text.as_bytes()) && !ends.iter().any(|end| text.contains(end)) {
        return None;
    }
    let mut found = by_width(text);
    found.extend(by_neighbours(&lines(text)));
    found.sort_unstable();
    let (mut out, mut copied, mut hidden) = (String::new(), 0, 0);
    for (start, end) in found {
        if start >= copied {
            out.push_str(&text[copied..start]);
            out.push_str(HIDDEN);
            hidden += 1;
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    (hidden > 0).then_some((out, hidden))
}

/// The lines of a width that keys have, wherever they stand, and the shorter one after them.
fn by_width(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut in_body) = (Vec::new(), false);
    for (start, end) in runs(text) {
        let run = &text[start..end];
        let is_line = has_key_width(run);
        let is_last = in_body
            && run.len() >= MIN_LAST_LINE
            && (is_mixed(run) || text[end..].starts_with('='));
        // Other words of a line, such as its time, may stand between two lines of a key.
        in_body = is_line || (in_body && !is_last && run.len() < MIN_LAST_LINE);
        if is_line || is_last {
            found.push((start, end));
        }
    }
    found
}

/// The lines that are those of a key by what is above and below them: others of the same width, and its end.
fn by_neighbours(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let (mut is_key, mut is_full) = (vec![false; lines.len()], vec![false; lines.len()]);
    for (at, line) in lines.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| lines.get(before));
        let after = lines.get(at + 1);
        let is_twin = |other: Option<&Line<'_>>| {
            other.is_some_and(|other| other.is_bare && other.run.len() == line.run.len())
        };
        let is_long = line.run.len() >= MIN_LINE && is_mixed(line.run);
        let is_row = is_long && line.is_bare && !line.is_padded;
        let is_last = at > 0
            && is_full[at - 1]
            && line.is_bare
            && before.is_some_and(|before| !before.is_padded && line.run.len() <= before.run.len());
        // The rest of a line whose beginning was cut off, with all that was before it.
        let is_cut = at == 0
            && line.is_bare
            && after
                .is_some_and(|after| has_key_width(after.run) && line.run.len() <= after.run.len());
        let is_word = line.run.len() >= MIN_LAST_LINE && (is_mixed(line.run) || line.is_padded);
        is_full[at] = has_key_width(line.run) || is_row && (is_twin(before) || is_twin(after));
        is_key[at] = is_full[at] || (is_last || is_cut) && is_word;
    }
    for end in (0..lines.len()).filter(|end| lines[*end].ends_key) {
        let mut above = (0..end).rev().skip_while(|at| lines[*at].is_checksum());
        if let Some(last) = above.next().filter(|at| !lines[*at].run.is_empty()) {
            is_key[last] = true;
            let body = above.take_while(|at| lines[*at].run.len() >= MIN_LINE);
            body.for_each(|at| is_key[at] = true);
        }
    }
    // The rest of a line whose beginning was cut off, above the last line of a key.
    if is_key.get(1) == Some(&true) && lines[0].is_bare && lines[0].run.len() >= MIN_LAST_LINE {
        is_key[0] = true;
    }
    let found = lines.iter().zip(is_key).filter(|(_, is_key)| *is_key);
    found
        .map(|(line, _)| (line.start, line.start + line.run.len()))
        .collect()
}

/// The longest parts of Base64 characters; none across an escaped end of a line (`\n`).
fn runs(text: &str) -> Vec<(usize, usize)> {
    let (mut runs, mut start, mut escaped) = (Vec::new(), None, false);
    for (at, byte) in text.bytes().enumerate() {
        let is_part = !escaped && is_base64(byte);
        escaped = !escaped && byte == b'\\';
        match (is_part, start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                runs.push((first, at));
                start = None;
            }
            _ => {}
        }
    }
    runs.extend(start.map(|first| (first, text.len())));
    runs
}

/// A line, also one in a text with escaped ends of lines (`\n`).
#[derive(Default)]
struct Line<'a> {
    /// Its last word, if that is of Base64 characters and nothing but marks follow.
    run: &'a str,
    /// The beginning of it in the text.
    start: usize,
    /// The run is the whole line, but for what a log writes before it: a time, the name of a container.
    is_bare: bool,
    /// The run is followed by `=`.
    is_padded: bool,
    /// The run has `=` before it.
    is_assigned: bool,
    /// The line that ends a private key.
    ends_key: bool,
}

impl Line<'_> {
    /// Whether it is the checksum of PGP (`=AbCd`), or empty.
    fn is_checksum(&self) -> bool {
        self.run.is_empty() || self.run.len() == 4 && self.is_assigned
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let (mut lines, mut begin) = (Vec::new(), 0);
    let bytes = text.as_bytes();
    for (at, byte) in text.bytes().enumerate() {
        let is_escaped = byte == b'n' && at > begin && bytes[at - 1] == b'\\';
        if byte == b'\n' || is_escaped {
            lines.push(line(text, begin, at));
            begin = at + 1;
        }
    }
    lines.push(line(text, begin, text.len()));
    lines
}

fn line(text: &str, begin: usize, end: usize) -> Line<'_> {
    let whole = &text[begin..end];
    // What ends a line in JSON, in code and on Windows, also escaped.
    let marks = ['\\', '"', '\'', ',', ';', ' ', '\t'];
    let trimmed = match whole.trim_end_matches(['\\', ' ', '\t', '\r']) {
        // `\r` of an escaped end of a line.
        rest if rest.ends_with("\\r") => &rest[..rest.len() - 2],
        rest => rest,
    };
    let trimmed = trimmed.trim_end_matches(marks);
    let content = trimmed.trim_end_matches('=');
    let run_length = content.bytes().rev().take_while(|byte| is_base64(*byte));
    let start = content.len() - run_length.count();
    let (before, run) = content.split_at(start);
    let is_private = ["--- END ", "----END ", "PRIVATE KEY"]
        .iter()
        .filter(|mark| whole.contains(**mark))
        .count()
        > 1
        || whole.contains(PUTTY_END);
    Line {
        run,
        start: begin + start,
        is_bare: is_prefix(before),
        is_padded: content.len() < trimmed.len(),
        is_assigned: before.ends_with('='),
        ends_key: is_private && !whole.contains("BEGIN "),
    }
}

/// Whether nothing but a time, a name and marks stand before a line.
fn is_prefix(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\'', '\\', '>']);
    let is_time = |word: &str| {
        let mut bytes = word.bytes();
        word.starts_with(|c: char| c.is_ascii_digit())
            && bytes.all(|byte| byte.is_ascii_digit() || b"-:.,TZ+".contains(&byte))
    };
    let after_name = before.rsplit_once('|').map_or(before, |(_, after)| after);
    after_name.split_whitespace().all(is_time)
}

/// Whether there may be a line of a key: most texts have none, and are not split.
fn has_long_run(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|&byte| !is_base64(byte));
    parts.any(|part| part.len() >= MIN_LINE)
}

/// Whether it has the width of keys.
fn has_key_width(run: &str) -> bool {
    LINE_LENGTHS.contains(&run.len()) && is_mixed(run)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Whether it has capital and small letters and digits. Ids and checksums have no capital letters.
fn is_mixed(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_are_shown() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        for text in [
            id,
            "sha256:x",
            "a/b/c -----END",
            &format!("{id} Started 12 things"),
            // A word that could be the last line of a key, but for what is around it.
            &format!("{id} Started123"),
            &format!("{id} as Started123"),
            "Started123 END -----END x",
            "Started123 -----BEGIN -----END x",
            "Started123 ----- END",
            "Started123\n-----END CERTIFICATE-----",
            "Started123\nthe PRIVATE KEY is missing",
            // Digests of a log, and words of the same length that are no Base64.
            "chunk 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\nchunk 57DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==\nx",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        ] {
            assert_eq!(hide_bodies(text), None, "{text}");
        }
    }

    /// Read line by line, from any line on: no line of a key is shown, and the others are.
    #[test]
    fn lines_of_a_key_are_known_by_those_before() {
        for (label, width, last) in [
            ("PRIVATE KEY", 64, 24),
            ("RSA PRIVATE KEY", 64, 0),
            ("OPENSSH PRIVATE KEY", 70, 20),
            ("PRIVATE KEY", 48, 13),
            ("PRIVATE KEY", 100, 16),
        ] {
            let body = body(width, 14, last, 5);
            let begin = format!("-----BEGIN {label}-----");
            let end = format!("-----END {label}-----");
            let key = [&[begin], &*body, &[end]].concat();
            let others = ["started", "GET /a 200", "id f0badb8fffde1d78", "Ready2Go"];
            for (start, prefix) in
                (0..key.len()).flat_map(|at| [(at, ""), (at, "2026-01-31T12:00:00Z ")])
            {
                let mut keys = KeyLines::default();
                for line in &key[start..] {
                    assert!(keys.is_next(&format!("{prefix}{line}")), "{start} {line}");
                }
                for line in others {
                    assert!(!keys.is_next(line), "{line}");
                }
            }
            // The first line that is seen.
            for line in others {
                assert!(!KeyLines::default().is_next(line), "{line}");
            }
        }
    }

    #[test]
    fn text_after_a_key_is_shown() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        for (after, expected) in [
            ("q9CpQk2cTFTSz\nStarted123", "***\n***\nStarted123"),
            ("abcdefgh Started123", "***\nabcdefgh Started123"),
        ] {
            let (shown, hidden) = hide_bodies(&format!("{line}\n{after}")).unwrap();
            assert_eq!(shown, expected);
            assert_eq!(hidden as usize, expected.matches("***").count());
        }
    }

    /// Base64 of these bytes as a generator of numbers gives them, in lines of `width`.
    fn body(width: usize, lines: usize, last: usize, seed: u64) -> Vec<String> {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(ALPHABET[usize::try_from(state >> 58).unwrap()])
        };
        let mut line = |width: usize| (0..width).map(|_| next()).collect::<String>();
        let mut body: Vec<_> = (0..lines).map(|_| line(width)).collect();
        body.extend((last > 0).then(|| line(last) + &"=".repeat(last % 3)));
        body
    }

    /// Every window of every kind of key, as it stands in logs: with the end of the key in it, without its
    /// beginning, or with neither.
    #[test]
    fn no_window_shows_the_inside_of_a_key() {
        let pem = |label: &str| ["BEGIN", "END"].map(|word| format!("-----{word} {label}-----"));
        let ssh2 = "SSH2 ENCRYPTED PRIVATE KEY";
        let ssh2 = ["BEGIN", "END"].map(|word| format!("---- {word} {ssh2} ----"));
        let putty = ["Private-Lines: 14", "Private-MAC: 0123abcd"].map(str::to_owned);
        let kinds = [
            (pem("PRIVATE KEY"), 64),
            (pem("ENCRYPTED PRIVATE KEY"), 64),
            (pem("RSA PRIVATE KEY"), 64),
            (pem("EC PRIVATE KEY"), 64),
            (pem("DSA PRIVATE KEY"), 76),
            (pem("OPENSSH PRIVATE KEY"), 70),
            (pem("PGP PRIVATE KEY BLOCK"), 64),
            (pem("PRIVATE KEY"), 48),
            (pem("PRIVATE KEY"), 60),
            (pem("PRIVATE KEY"), 100),
            (ssh2, 72),
            (putty, 64),
        ];
        let prefixes = [
            "",
            "  ",
            "2026-01-31T12:00:00.123456789Z ",
            "web-1  | ",
            "12:00:01 ",
            "\"",
        ];
        let mut shown_lines = 0;
        for (at, ([begin, end], width)) in kinds.iter().enumerate() {
            let lasts = [0, 4, 12, 13, 20, 38, 44];
            for (last, prefix) in [
                (lasts[at % 7], prefixes[at % 6]),
                (lasts[(at + 3) % 7], prefixes[(at + 1) % 6]),
            ] {
                let body = body(*width, 14, last, 7 * (at as u64) + last as u64);
                let mut all = vec!["started".to_owned(), begin.clone()];
                all.extend(body.iter().cloned());
                if begin.contains("PGP") {
                    all.push("=AbC9".to_owned());
                }
                all.extend([end.clone(), "ready to serve".to_owned()]);
                let all: Vec<_> = all.iter().map(|line| format!("{prefix}{line}")).collect();
                for (start, size) in (0..all.len())
                    .flat_map(|start| [1, 2, 3, 5, 8, 15, 20].map(|size| (start, size)))
                {
                    let window = &all[start..all.len().min(start + size)];
                    for separator in [["\n", "\\n", "\\r\\n"][size % 3]] {
                        let text = window.join(separator);
                        let shown = super::super::redacted(&text);
                        for (line, secret) in body.iter().enumerate() {
                            let is_shown = shown.contains(secret.as_str());
                            // One line of an unusual width, without another and without the end.
                            let full = |line: &&String| {
                                body[..14].iter().any(|it| line.contains(it.as_str()))
                            };
                            let alone = window.iter().filter(full).count() <= 1
                                && !text.contains(end.as_str());
                            let is_unusual = !LINE_LENGTHS.contains(&secret.len());
                            // The last one without what follows, of letters only.
                            let is_word = line == 14
                                && !text.contains(end.as_str())
                                && (last < MIN_LAST_LINE
                                    || !is_mixed(secret) && !secret.contains('='));
                            shown_lines += usize::from(is_shown);
                            assert!(
                                !is_shown || alone && is_unusual || is_word,
                                "{secret}\n--\n{text}\n--\n{shown}"
                            );
                        }
                    }
                }
            }
        }
        assert!(shown_lines > 0);
    }
}
