//! Reads expressions without running them: whether their braces are there, and which nodes they name.

use serde_json::Value;

/// Texts before the quoted name of a node in an expression.
const REFERENCE_PREFIXES: [&str; 4] = ["$(", "$node[", "$items(", "$nodeName("];

/// Visits all texts of `value`, each with its path.
pub(crate) fn visit_texts(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(all) => {
            for (at, one) in all.iter().enumerate() {
                visit_texts(one, &format!("{path}[{at}]"), visit);
            }
        }
        Value::Object(all) => {
            for (key, one) in all {
                let dot = if path.is_empty() { "" } else { "." };
                visit_texts(one, &format!("{path}{dot}{key}"), visit);
            }
        }
        _ => {}
    }
}

/// The fault of a text that is, or looks like, an expression.
pub(crate) fn error(text: &str) -> Option<&'static str> {
    let Some(expression) = text.strip_prefix('=') else {
        let looks = text.contains("{{ $") || text.contains("{{$");
        return looks.then_some("looks like an expression but does not start with `=`");
    };
    let mut inside = expression.split("{{").skip(1);
    inside.find_map(|inside| match inside.split_once("}}") {
        None => Some("opens `{{` without `}}`"),
        Some((inside, _)) => inside.trim().is_empty().then_some("has an empty `{{ }}`"),
    })
}

/// The names of the nodes that an expression or code refers to.
pub(crate) fn references(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for before in REFERENCE_PREFIXES {
        for (at, _) in text.match_indices(before) {
            if let Some((name, _)) = quoted(&text[at + before.len()..]) {
                names.push(name);
            }
        }
    }
    names
}

/// The text with every reference to `old` replaced by one to `new`.
pub(crate) fn renamed(text: &str, old: &str, new: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    'outer: while !rest.is_empty() {
        for before in REFERENCE_PREFIXES {
            let Some(after) = rest.strip_prefix(before) else {
                continue;
            };
            if let Some((name, length)) = quoted(after)
                && name == old
            {
                let quote = &after[..1];
                result.push_str(before);
                result.push_str(quote);
                let new = new
                    .replace('\\', r"\\")
                    .replace(quote, &format!("\\{quote}"));
                result.push_str(&new);
                result.push_str(quote);
                rest = &after[length..];
                continue 'outer;
            }
        }
        let Some(next) = rest.chars().next() else {
            break;
        };
        result.push(next);
        rest = &rest[next.len_utf8()..];
    }
    result
}

/// The length of the quoted text at the start, with its quotes; `None` without its end.
fn text_length(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\n' if quote != '`' => return None,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The quoted name at the start of the text, without escapes, and its length including the quotes.
fn quoted(text: &str) -> Option<(String, usize)> {
    let quote = text.chars().next().filter(|c| "'\"`".contains(*c))?;
    let length = text_length(text, quote)?;
    let (mut name, mut chars) = (String::new(), text[1..length - 1].chars());
    while let Some(c) = chars.next() {
        name.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    // What a template inserts is known only in a run.
    (quote != '`' || !name.contains("${")).then_some((name, length))
}
