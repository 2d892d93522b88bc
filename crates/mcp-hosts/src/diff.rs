//! The difference of two entries for people.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::edit;
use crate::host::Host;

/// Renders an entry before and after a change of a file, in the syntax of that. `shown` has the texts that are not
/// masked: others may be secrets.
pub(crate) fn render(
    (host, path): (&Host, &Path),
    name: &str,
    entries: [Option<&Value>; 2],
    shown: Option<&Value>,
) -> String {
    let file = |entry: Option<&Value>| {
        let masked = entry.map(|entry| masked(entry, shown));
        let text = masked.map(|entry| edit::set(host, "", name, Some(&entry)));
        text.and_then(Result::ok).unwrap_or_default()
    };
    let [before, after] = entries.map(file);
    let mut text = format!("--- {0}\n+++ {0}\n", path.display());
    let is_in = |line: &str, others: &str| others.lines().any(|other| other == line);
    for line in before.lines().filter(|line| !is_in(line, &after)) {
        let _ = writeln!(text, "-{line}");
    }
    for line in after.lines() {
        let mark = if is_in(line, &before) { ' ' } else { '+' };
        let _ = writeln!(text, "{mark}{line}");
    }
    text
}

/// An entry with its texts and numbers hidden that are not in `shown`.
fn masked(value: &Value, shown: Option<&Value>) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|value| masked(value, shown)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let masked = members.map(|(key, value)| (key.clone(), masked(value, shown)));
            Value::Object(masked.collect())
        }
        Value::String(_) | Value::Number(_) if !shown.is_some_and(|shown| has(shown, value)) => {
            "…".into()
        }
        value => value.clone(),
    }
}

fn has(value: &Value, searched: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| has(value, searched)),
        Value::Object(members) => members.values().any(|value| has(value, searched)),
        value => value == searched,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::HOSTS;

    #[test]
    fn only_texts_of_the_new_entry_are_shown() {
        let old = json!({"command": "/bin/x", "env": {"KEY": "hunter2", "N": 12}, "on": true});
        let new = json!({"command": "/bin/x", "args": ["--stdio"]});
        let path = Path::new("f");
        let rendered = |entries, shown| render((&HOSTS[0], path), "x", entries, shown);
        let text = rendered([Some(&old), Some(&new)], Some(&new));
        for line in [
            "+++ f",
            "-        \"KEY\": \"…\",",
            "       \"command\": \"/bin/x\",",
            "+        \"--stdio\"",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let removed = rendered([Some(&old), None], None);
        for text in [text, removed] {
            assert!(!text.contains("hunter2") && !text.contains("12"), "{text}");
        }
    }
}
