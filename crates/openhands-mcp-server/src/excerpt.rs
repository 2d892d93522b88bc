//! What an agent printed may be megabytes; the caller pays for every byte of it.

/// The first part of a text that fits into `max` bytes of JSON; says what was cut.
pub(crate) fn head(text: &str, max: usize) -> String {
    let mut room = max;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match room.checked_sub(cost(c)) {
            Some(left) => room = left,
            None => {
                end = at;
                break;
            }
        }
    }
    let shown = &text[..end];
    if end == text.len() {
        return shown.to_owned();
    }
    format!("{shown}\n[cut: {end} of {} bytes shown]", text.len())
}

/// The last part of a text that fits into `max` bytes of JSON; says what was cut.
pub(crate) fn tail(text: &str, max: usize) -> String {
    let mut room = max;
    let mut start = 0;
    for (at, c) in text.char_indices().rev() {
        match room.checked_sub(cost(c)) {
            Some(left) => room = left,
            None => {
                start = at + c.len_utf8();
                break;
            }
        }
    }
    let shown = &text[start..];
    if start == 0 {
        return shown.to_owned();
    }
    let length = text.len() - start;
    format!(
        "[cut: last {length} of {} bytes shown]\n{shown}",
        text.len()
    )
}

/// Bytes of a character in JSON: a screen full of escape sequences costs six times its length.
fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c.is_ascii_control() => 6,
        c => c.len_utf8(),
    }
}

/// The text in one line of at most `max` bytes.
pub(crate) fn line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > max {
            line.truncate(line.floor_char_boundary(max));
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_said() {
        assert_eq!(head("short", 5), "short");
        assert_eq!(head("äöü", 3), "ä\n[cut: 2 of 6 bytes shown]");
        assert_eq!(tail("short", 9), "short");
        assert_eq!(tail("äöü", 3), "[cut: last 2 of 6 bytes shown]\nü");
        assert_eq!(head("\u{1b}\u{1b}", 8), "\u{1b}\n[cut: 1 of 2 bytes shown]");
        assert_eq!(tail("\"\"", 4), "\"\"");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\tb\r\n\u{1b}[0m c ", 80), "a b [0m c");
        assert_eq!(line("aä bä cä", 4), "aä …");
        assert_eq!(line("", 4), "");
    }
}
