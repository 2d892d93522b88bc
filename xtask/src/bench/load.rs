//! What the load program is told.

/// Asks for JSON.
pub(super) const JSON: &str = "Accept: application/json";
/// Takes both, as some servers answer nobody who would not.
pub(super) const BOTH: &str = "Accept: application/json, text/event-stream";
/// A version of the protocol that all know.
pub(super) const VERSION: &str = "MCP-Protocol-Version: 2025-06-18";

pub(super) const ECHO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"hello hello hello hello hello hello"}}}"#;
pub(super) const ECHO_ANSWER: &str = r#""isError":false}}"#;

/// Arguments of the load program.
#[derive(Clone)]
pub(super) struct Load(pub(super) Vec<String>);

impl Load {
    /// A load of this kind with this message.
    pub(super) fn new(kind: &str, body: &str) -> Self {
        Self(vec![kind.to_owned()]).with("--body", body)
    }

    /// Echoes over HTTP, as JSON.
    pub(super) fn echo() -> Self {
        let echo = Self::new("http", ECHO).with("--header", JSON);
        echo.with("--expect", ECHO_ANSWER)
    }

    /// Adds an option.
    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// Takes an option away with its value.
    pub(super) fn without(mut self, name: &str) -> Self {
        if let Some(at) = self.0.iter().position(|word| word == name) {
            self.0.drain(at..at + 2);
        }
        self
    }

    /// Adds the command that it starts itself.
    pub(super) fn command(mut self, command: &[&str]) -> Self {
        self.0.push("--".to_owned());
        self.0.extend(command.iter().copied().map(str::to_owned));
        self
    }
}
