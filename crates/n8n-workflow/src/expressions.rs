//! Checks expressions without running them: whether they are complete, and which nodes they name.

mod syntax;

use serde_json::Value;

use syntax::text_length;

pub(crate) use syntax::js_error;

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

/// The syntax error of an expression, if it has one; `None` for any other text.
pub(crate) fn syntax_error(text: &str) -> Option<String> {
    let Some(expression) = text.strip_prefix('=') else {
        let looks = text.contains("{{ $") || text.contains("{{$");
        return looks.then(|| "looks like an expression but does not start with `=`".to_owned());
    };
    let mut rest = expression;
    while let Some(begin) = rest.find("{{") {
        let after = &rest[begin + 2..];
        let Some(end) = after.find("}}") else {
            return Some("opens `{{` without `}}`".to_owned());
        };
        // An object literal may end right before the braces: `{{ {"a": {}} }}`.
        let extra = after[end + 2..].bytes().take_while(|&c| c == b'}').count();
        let inside = &after[..end + extra];
        if inside.trim().is_empty() {
            return Some("has an empty `{{ }}`".to_owned());
        }
        if let Some(error) = js_error(inside) {
            return Some(error);
        }
        rest = &after[end + extra + 2..];
    }
    None
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
