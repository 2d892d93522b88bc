//! Backends of the command line: `NAME=COMMAND` and `NAME=URL`.

use super::error::Problem;
use super::expand::Place;
use super::reader::Reader;
use super::{Backend, BackendKey, Child, Remote, Target};

/// Reads one `--backend`.
pub(super) fn parse(text: &str, place: &Place<'_>) -> Result<(BackendKey, Backend), Problem> {
    let wrong = |what: &str| Problem::new(&[], what);
    let (name, what) = text.split_once('=').ok_or_else(|| {
        wrong("is `NAME=COMMAND` or `NAME=URL`, like `files=npx -y @modelcontextprotocol/server-filesystem .`")
    })?;
    let (name, what) = (name.trim(), what.trim());
    let key = BackendKey::parse(name).map_err(|what| Problem::new(&[name], what))?;
    let mut reader = Reader::new(["backends", name], place);
    let target = if what.starts_with("http://") || what.starts_with("https://") {
        Target::Http(Remote::new(reader.url(what)?))
    } else {
        let argv = words(what)
            .ok_or_else(|| Problem::new(&[name], "has a quote without its other half"))?;
        Target::Child(Child::new(reader.command(argv)?))
    };
    let backend = Backend {
        disabled: reader.missing,
        ..Backend::new(target)
    };
    Ok((key, backend))
}

/// The three servers of this workspace, where they listen by default.
pub(super) fn local() -> Vec<(BackendKey, Backend)> {
    let servers = [("n8n", 3456), ("openhands", 3457), ("docker", 3458)];
    let backend = |(name, port): (&str, u16)| {
        let url = format!("http://127.0.0.1:{port}/mcp");
        let key = BackendKey::parse(name).ok()?;
        Some((key, Backend::new(Target::Http(Remote::new(url)))))
    };
    servers.into_iter().filter_map(backend).collect()
}

/// Words as a shell would part them at spaces, quotes and backslashes; nothing else of a shell is
/// understood. `None` for an open quote.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('\''), letter) => word.get_or_insert_with(String::new).push(letter),
            (_, '\\') => word.get_or_insert_with(String::new).push(letters.next()?),
            (Some(_), letter) => word.get_or_insert_with(String::new).push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_with(String::new);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_with(String::new).push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_parted_and_nothing_is_run() {
        let words = |text| words(text).map(|words| words.join("|"));
        for (text, expected) in [
            ("npx -y  server", "npx|-y|server"),
            ("a 'b c' \"d e\" f\\ g", "a|b c|d e|f g"),
            ("a ''", "a|"),
            ("a'b'\"c\"", "abc"),
            (
                "a; rm -rf / && $(b) `c` > d | e & *",
                "a;|rm|-rf|/|&&|$(b)|`c`|>|d|||e|&|*",
            ),
            (r#"a "b\"c" 'd\e'"#, r#"a|b"c|d\e"#),
            ("", ""),
        ] {
            assert_eq!(words(text).as_deref(), Some(expected), "{text}");
        }
        for open in ["a 'b", "a \"b", "a \\"] {
            assert_eq!(words(open), None, "{open}");
        }
    }
}
