//! The one place through which text of containers passes on its way to a caller.
//!
//! Container configuration is where passwords live, and an answer to a model is an answer to
//! whoever reads the conversation. What looks like a secret is shown as `***`, because of the name
//! that it is stored under or because of its shape. Better one value too
//! many than one too few: `--show-secrets` turns it off.

mod name;
mod shape;

use crate::clean::clean;

/// What is shown instead of a secret.
const HIDDEN: &str = "***";

/// Cleans and redacts the texts of one answer, and counts what it hid.
#[derive(Debug)]
pub(crate) struct Redactor {
    enabled: bool,
    hidden: u32,
}

impl Redactor {
    /// With `enabled` false, texts are only cleaned.
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, hidden: 0 }
    }

    /// How many values were hidden so far; `None` where there were none.
    pub(crate) fn hidden(&self) -> Option<u32> {
        (self.hidden > 0).then_some(self.hidden)
    }

    /// Free text: log lines, error texts, the output of probes.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let text = clean(text);
        if !self.enabled {
            return text.into_owned();
        }
        let (text, hidden) = shape::hide(text);
        self.hidden += hidden;
        text.into_owned()
    }

    /// `KEY=value`, as in a container's environment.
    pub(crate) fn assignment(&mut self, assignment: &str) -> String {
        match assignment.split_once('=') {
            Some((name, value)) => format!("{}={}", clean(name), self.value(name, value)),
            None => self.text(assignment),
        }
    }

    /// The value stored under `name`: an environment variable's, a label's.
    pub(crate) fn value(&mut self, name: &str, value: &str) -> String {
        if self.enabled && name::is_secret(name) && !is_placeholder(value) {
            return self.hide();
        }
        self.text(value)
    }

    /// The words of a command line, joined by blanks.
    pub(crate) fn command<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> String {
        let mut shown: Vec<String> = Vec::new();
        let mut secret_follows = false;
        for word in words {
            let is_flag = word.starts_with('-');
            let secret = self.enabled && secret_follows && !is_flag && !is_placeholder(word);
            shown.push(if secret { self.hide() } else { self.text(word) });
            secret_follows = is_flag && !word.contains('=') && name::is_secret(word);
        }
        let line = shown.join(" ");
        // Shapes that only the whole line has.
        self.text(&line)
    }

    fn hide(&mut self) -> String {
        self.hidden += 1;
        HIDDEN.to_owned()
    }
}

/// Values that tell more by being seen than they could give away.
fn is_placeholder(value: &str) -> bool {
    matches!(
        &*value.to_ascii_lowercase(),
        "" | HIDDEN | "true" | "false" | "null" | "nil" | "none" | "undefined"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_is_redacted_by_name_and_by_shape() {
        let cases = [
            ("PATH=/usr/bin:/bin", "PATH=/usr/bin:/bin"),
            ("PWD=/srv", "PWD=/srv"),
            ("POSTGRES_PASSWORD=hunter2", "POSTGRES_PASSWORD=***"),
            ("POSTGRES_PASSWORD=", "POSTGRES_PASSWORD="),
            (
                "POSTGRES_PASSWORD_FILE=/run/secrets/pg",
                "POSTGRES_PASSWORD_FILE=/run/secrets/pg",
            ),
            ("apiKey=abc", "apiKey=***"),
            ("KEY=abc", "KEY=***"),
            (
                "DATABASE_URL=postgres://u:hunter2@db/x",
                "DATABASE_URL=postgres://u:***@db/x",
            ),
            (
                "OPTS=-Xmx1g -Dpassword=hunter2",
                "OPTS=-Xmx1g -Dpassword=***",
            ),
            ("NOVALUE", "NOVALUE"),
        ];
        for (text, expected) in cases {
            assert_eq!(Redactor::new(true).assignment(text), expected);
        }
    }

    #[test]
    fn command_lines_are_redacted() {
        let cases: [(&[&str], &str); 4] = [
            (&["sh", "-c", "echo hi"], "sh -c echo hi"),
            (&["x", "--password", "a b", "-v"], "x --password *** -v"),
            (&["x", "--token=abc"], "x --token=***"),
            (
                &["sh", "-c", "run --api-key abc --port 80"],
                "sh -c run --api-key *** --port 80",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(Redactor::new(true).command(words.iter().copied()), expected);
        }
    }

    #[test]
    fn what_is_hidden_is_counted_once() {
        let mut redactor = Redactor::new(true);
        redactor.assignment("A_TOKEN=x");
        redactor.command(["x", "--password", "y", "--secret=z"]);
        assert_eq!(redactor.hidden(), Some(3));
        assert_eq!(Redactor::new(true).hidden(), None);
    }

    #[test]
    fn turned_off_it_only_cleans() {
        let mut redactor = Redactor::new(false);
        assert_eq!(redactor.assignment("A_TOKEN=x\u{1b}[0m"), "A_TOKEN=x");
        assert_eq!(redactor.hidden(), None);
    }
}
