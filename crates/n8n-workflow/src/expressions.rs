//! Reads expressions without running them: whether their braces are there, and which nodes they name.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// A reference to a node in an expression: what is before its name, and the name in one of three kinds of quotes.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = |quote: &str, end: &str| format!(r"{quote}((?:[^{quote}{end}\\]|\\.)*){quote}");
    let names = [name("'", r"\n"), name("\"", r"\n"), name("`", "")].join("|");
    let before = r"\$\(|\$node\[|\$items\(|\$nodeName\(";
    Regex::new(&format!("(?s)({before})(?:{names})")).ok()
});

/// The same in the form `$node.Name`.
static DOTTED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$node\.([\w$]+)").ok());

/// Names of n8n's data, which stand in expressions and not in templates of others.
const DATA: &str = "$( $json $input $node[ $node. $items( $binary $now $today $vars $env $execution $workflow $parameter \
    $prevNode $itemIndex $runIndex $secrets";

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
        let names_data = |inside: &str| DATA.split(' ').any(|name| inside.contains(name));
        let mut inside = text.split("{{").skip(1);
        let looks = text.contains("{{ $")
            || text.contains("{{$")
            || inside.any(|rest| {
                rest.split_once("}}")
                    .is_some_and(|(one, _)| names_data(one))
            });
        return looks.then_some("looks like an expression but does not start with `=`");
    };
    let mut inside = expression.split("{{").skip(1);
    inside.find_map(|inside| match inside.split_once("}}") {
        None => Some("opens `{{` without `}}`"),
        Some((inside, _)) if inside.trim().is_empty() => Some("has an empty `{{ }}`"),
        // n8n ends an expression at the first `}}`, also within an object.
        Some((inside, rest)) => {
            let is_open = inside.matches('{').count() > inside.matches('}').count();
            let after = rest.trim_start();
            (is_open && after != rest && after.starts_with('}'))
                .then_some("has `}}` inside of an expression, which ends there: put a space between the braces")
        }
    })
}

/// The names of the nodes that the expressions in a text refer to.
pub(crate) fn references_in_braces(text: &str) -> Vec<String> {
    let inside = text.split("{{").skip(1);
    let inside = inside.map(|inside| inside.split("}}").next().unwrap_or_default());
    inside.flat_map(references).collect()
}

pub(crate) fn references(text: &str) -> Vec<String> {
    let found = REFERENCE
        .iter()
        .flat_map(|pattern| pattern.captures_iter(text));
    found.filter_map(|found| Some(quoted(&found)?.1)).collect()
}

/// The text with every reference to `old` replaced by one to `new`.
pub(crate) fn renamed(text: &str, old: &str, new: &str) -> String {
    let (Some(pattern), Some(dotted)) = (REFERENCE.as_ref(), DOTTED.as_ref()) else {
        return text.to_owned();
    };
    let written = |quote: &str| {
        let new = new.replace('\\', r"\\");
        let mut new = new.replace(quote, &format!("\\{quote}"));
        if quote == "`" {
            new = new.replace("${", r"\${");
        }
        format!("{quote}{new}{quote}")
    };
    let rename = |found: &Captures<'_>| match quoted(found) {
        Some((quote, name)) if name == old => format!("{}{}", &found[1], written(quote)),
        _ => found[0].to_owned(),
    };
    let text = pattern.replace_all(text, rename);
    let rename = |found: &Captures<'_>| match &found[1] == old {
        true => format!("$node[{}]", written("'")),
        false => found[0].to_owned(),
    };
    dotted.replace_all(&text, rename).into_owned()
}

/// The quotes of a reference, and the name in them without escapes.
fn quoted(found: &Captures<'_>) -> Option<(&'static str, String)> {
    let mut quotes = ["'", "\"", "`"].into_iter().zip(2..);
    let (quote, escaped) = quotes.find_map(|(quote, at)| Some((quote, found.get(at)?.as_str())))?;
    let (mut name, mut chars) = (String::new(), escaped.chars().peekable());
    while let Some(c) = chars.next() {
        // What a template inserts is known only in a run.
        if (quote, c, chars.peek()) == ("`", '$', Some(&'{')) {
            return None;
        }
        name.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Some((quote, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_all_forms_are_renamed() {
        for (text, expected) in [
            ("$('Old').item", r"$('It\'s').item"),
            ("$node[\"Old\"].json", "$node[\"It's\"].json"),
            ("$items(`Old`, 0)", "$items(`It's`, 0)"),
            (
                "{{ $node.Old.json.a + $node.Older.json.a }}",
                r"{{ $node['It\'s'].json.a + $node.Older.json.a }}",
            ),
            ("Old $('Older') $nodes.Old", "Old $('Older') $nodes.Old"),
        ] {
            assert_eq!(renamed(text, "Old", "It's"), expected);
        }
        // There and back.
        for (text, odd) in [("$(`Old`)", "`a` ${b}"), ("$('Old')", r"\'${b}")] {
            let there = renamed(text, "Old", odd);
            assert_eq!(references(&there), [odd]);
            assert_eq!(renamed(&there, odd, "Old"), text);
        }
        assert!(references("$(`a ${b}`)").is_empty());
    }
}
