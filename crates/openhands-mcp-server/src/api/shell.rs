//! Commands on the agent server's side. Only our own scripts run here; what callers say gets into
//! them as quoted words.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::agent_server::AgentServer;
use super::failure::Failure;

/// Our scripts look at a directory and call git: milliseconds, seconds in a large repository.
const SCRIPT_SECONDS: u64 = 10;

/// What a command printed and how it ended.
#[derive(Debug, Deserialize)]
pub(crate) struct Printed {
    /// None while it runs.
    #[serde(default)]
    pub(crate) exit_code: Option<i32>,
    #[serde(default)]
    stdout: Option<String>,
}

impl Printed {
    /// What it wrote to its standard output.
    pub(crate) fn text(&self) -> &str {
        self.stdout.as_deref().unwrap_or_default()
    }
}

impl AgentServer {
    /// Runs a script and waits for its end.
    pub(crate) async fn execute(&self, script: &str) -> Result<Printed, Failure> {
        let body = json!({"command": script, "timeout": SCRIPT_SECONDS});
        let request = self.post(&["api", "bash", "execute_bash_command"], &[]);
        let timeout = Duration::from_secs(SCRIPT_SECONDS + 2);
        request.within(timeout).json(&body).send().await
    }

    /// Starts a script that may run for `seconds`; its id.
    pub(crate) async fn execute_later(&self, script: &str, seconds: u64) -> Result<Uuid, Failure> {
        #[derive(Deserialize)]
        struct Started {
            id: Uuid,
        }
        let body = json!({"command": script, "timeout": seconds});
        let request = self.post(&["api", "bash", "start_bash_command"], &[]);
        let started: Started = request.json(&body).send().await?;
        Ok(started.id)
    }

    /// How a script ended that was started; none while it runs.
    pub(crate) async fn ended(&self, command: Uuid) -> Result<Option<Printed>, Failure> {
        #[derive(Deserialize)]
        struct Page {
            items: Vec<Printed>,
        }
        let command = command.simple().to_string();
        let query = [
            ("command_id__eq", &*command),
            ("kind__eq", "BashOutput"),
            ("sort_order", "TIMESTAMP_DESC"),
            ("limit", "1"),
        ];
        let page: Page = self
            .get(&["api", "bash", "bash_events", "search"], &query)
            .send()
            .await?;
        let newest = page.items.into_iter().next();
        Ok(newest.filter(|printed| printed.exit_code.is_some()))
    }
}

/// `text` as one word of a shell command, whatever it holds.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_stays_a_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(
            quoted("'; rm -rf $HOME `x` \\"),
            r"''\''; rm -rf $HOME `x` \'"
        );
    }
}
