//! Recognises the body of a private key by its shape: a log may be cut anywhere in the key, so that its
//! first or its last line is missing.

use super::HIDDEN;

/// Characters of a line: of OpenSSL and PGP, of OpenSSH, of MIME.
const LINE_LENGTHS: [usize; 3] = [64, 70, 76];
/// The fewest characters of the last line, which is shorter.
const MIN_LAST_LINE: usize = 8;

/// `text` without the lines of keys, and how many there were; `None` for a text without keys.
pub(super) fn hide_bodies(text: &str) -> Option<(String, u32)> {
    let (mut out, mut copied, mut hidden) = (String::new(), 0, 0);
    let mut in_body = false;
    let runs = runs(text);
    for (at, &(start, end)) in runs.iter().enumerate() {
        let run = &text[start..end];
        let is_line = LINE_LENGTHS.contains(&run.len()) && is_mixed(run);
        let before_end = runs.get(at + 1).is_some_and(|&(next, _)| {
            let between = &text[end..next];
            between.len() < 200 && between.contains("-----") && text[next..].starts_with("END")
        });
        let is_last = (in_body || before_end)
            && run.len() >= MIN_LAST_LINE
            && (is_mixed(run) || text[end..].starts_with('='));
        // Other words of a line, such as its time, may stand between two lines of a key.
        in_body = is_line || (in_body && !is_last && run.len() < MIN_LAST_LINE);
        if is_line || is_last {
            out.push_str(&text[copied..start]);
            out.push_str(HIDDEN);
            hidden += 1;
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    (hidden > 0).then_some((out, hidden))
}

/// The longest parts of Base64 characters; none across an escaped end of a line (`\n`).
fn runs(text: &str) -> Vec<(usize, usize)> {
    let (mut runs, mut start, mut escaped) = (Vec::new(), None, false);
    if !has_long_run(text.as_bytes()) && !text.contains("-----END ") {
        return runs;
    }
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

/// Whether there may be a line of a key: most texts have none, and are not split.
fn has_long_run(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|&byte| !is_base64(byte));
    parts.any(|part| part.len() >= LINE_LENGTHS[0])
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
    fn parts_of_a_key_are_hidden() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let last = "q9CpQk2cTFTSz";
        for text in [
            format!("{line}\n{line}\n{last}\n-----END PRIVATE KEY-----"),
            format!("12:00 {line}\n12:00 {line}\n12:00 {last}\n"),
            format!("\"{line}\\n{line}\\n{last}\\n-----END RSA PRIVATE KEY-----\\n\""),
            format!("web | {line}"),
            format!("{last}==\n-----END OPENSSH PRIVATE KEY-----"),
        ] {
            let (shown, hidden) = hide_bodies(&text).unwrap();
            assert!(!shown.contains(line) && !shown.contains(last), "{shown}");
            assert!(hidden > 0);
        }
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
        ] {
            assert_eq!(hide_bodies(text), None, "{text}");
        }
    }

    #[test]
    fn text_after_a_key_is_shown() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        for (text, expected) in [
            (
                format!("{line}\nq9CpQk2cTFTSz\nStarted123"),
                "***\n***\nStarted123",
            ),
            (
                format!("{line}\nabcdefgh Started123"),
                "***\nabcdefgh Started123",
            ),
        ] {
            let (shown, hidden) = hide_bodies(&text).unwrap();
            assert_eq!(shown, expected);
            assert_eq!(hidden as usize, expected.matches("***").count());
        }
    }
}
