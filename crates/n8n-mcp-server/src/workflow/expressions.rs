//! Expressions, as far as they can be checked without running them: whether they are whole, and
//! which nodes they name.

use serde_json::Value;

/// Ways in which an expression names a node: what stands before the name, and its quotes.
const BEFORE: [&str; 4] = ["$(", "$node[", "$items(", "$nodeName("];

/// Walks all texts of `value`; `visit` gets the path of each.
pub(super) fn texts(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(all) => {
            for (at, one) in all.iter().enumerate() {
                texts(one, &format!("{path}[{at}]"), visit);
            }
        }
        Value::Object(all) => {
            for (key, one) in all {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                texts(one, &path, visit);
            }
        }
        _ => {}
    }
}

/// What is wrong with an expression as a text; `None` for texts that are none.
pub(super) fn fault(text: &str) -> Option<&'static str> {
    let Some(expression) = text.strip_prefix('=') else {
        let looks = text.contains("{{ $") || text.contains("{{$");
        return looks.then_some("looks like an expression but does not start with `=`");
    };
    let mut rest = expression;
    while let Some(begin) = rest.find("{{") {
        let after = &rest[begin + 2..];
        let Some(end) = after.find("}}") else {
            return Some("opens `{{` without `}}`");
        };
        // An object literal may end right before: `{{ {"a": {}} }}`.
        let extra = after[end + 2..].bytes().take_while(|&c| c == b'}').count();
        let inside = &after[..end + extra];
        if inside.trim().is_empty() {
            return Some("has an empty `{{ }}`");
        }
        rest = &after[end + extra + 2..];
    }
    None
}

/// The names of the nodes that an expression, or code, refers to.
pub(super) fn references(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for before in BEFORE {
        for (at, _) in text.match_indices(before) {
            if let Some((name, _)) = quoted(&text[at + before.len()..]) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// The text with every reference to `old` made one to `new`.
pub(super) fn renamed(text: &str, old: &str, new: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    'outer: while !rest.is_empty() {
        for before in BEFORE {
            let Some(after) = rest.strip_prefix(before) else {
                continue;
            };
            if let Some((name, length)) = quoted(after)
                && name == old
            {
                let quote = &after[..1];
                result.push_str(before);
                result.push_str(quote);
                result.push_str(&new.replace(quote, &format!("\\{quote}")));
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

/// A name in quotes at the start, and the bytes that it takes with them.
fn quoted(text: &str) -> Option<(&str, usize)> {
    let quote = text.chars().next().filter(|c| "'\"`".contains(*c))?;
    let end = text[1..].find(quote)?;
    Some((&text[1..=end], end + 2))
}
