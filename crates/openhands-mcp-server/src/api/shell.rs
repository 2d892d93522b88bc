//! Shell scripts on the machine of the agent server. All scripts are ours; values from callers are
//! quoted as single words.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::api::agent_server::{AgentServer, Page};
use crate::api::failure::ApiResult;

/// Our scripts inspect a directory and call git: milliseconds, or seconds in a large repository.
const SCRIPT_SECONDS: u64 = 10;

/// The timeout of a connection to an MCP server.
const MCP_TEST_SECONDS: u64 = 4;

#[derive(Debug, Deserialize)]
pub(crate) struct ScriptOutput {
    /// `None` while it runs.
    #[serde(default)]
    pub(crate) exit_code: Option<i32>,
    #[serde(default)]
    stdout: Option<String>,
    #[serde(default)]
    stderr: Option<String>,
}

impl ScriptOutput {
    pub(crate) fn text(&self) -> &str {
        self.stdout.as_deref().unwrap_or_default()
    }

    pub(crate) fn error(&self) -> &str {
        self.stderr.as_deref().unwrap_or_default()
    }
}

impl AgentServer {
    /// Runs a script to its end.
    pub(crate) async fn run_script(&self, script: &str) -> ApiResult<ScriptOutput> {
        let timeout = Duration::from_secs(SCRIPT_SECONDS + 2);
        let body = json!({"command": script, "timeout": SCRIPT_SECONDS});
        let request = self.post(&["api", "bash", "execute_bash_command"]);
        request.timeout(timeout).json(&body).send().await
    }

    /// Starts a script that may run for `seconds`. Returns its id.
    pub(crate) async fn start_script(&self, script: &str, seconds: u64) -> ApiResult<Uuid> {
        #[derive(Deserialize)]
        struct StartedScript {
            id: Uuid,
        }
        let body = json!({"command": script, "timeout": seconds});
        let request = self.post(&["api", "bash", "start_bash_command"]);
        let started: StartedScript = request.json(&body).send().await?;
        Ok(started.id)
    }

    /// The output of a started script; `None` while it runs.
    pub(crate) async fn finished_script(&self, id: Uuid) -> ApiResult<Option<ScriptOutput>> {
        let request = self.get(&["api", "bash", "bash_events", "search"]);
        let request = request.query(&[
            ("command_id__eq", &id.simple().to_string()),
            ("kind__eq", "BashOutput"),
            ("sort_order", "TIMESTAMP_DESC"),
            ("limit", "1"),
        ]);
        let page: Page<ScriptOutput> = request.send().await?;
        let newest = page.items.into_iter().next();
        Ok(newest.filter(|output| output.exit_code.is_some()))
    }
}

impl AgentServer {
    /// Returns true if an MCP server answers the agent server.
    pub(crate) async fn mcp_server_answers(
        &self,
        url: &str,
        token: Option<&str>,
    ) -> ApiResult<bool> {
        #[derive(Deserialize)]
        struct Tested {
            ok: bool,
        }
        let mut tested = json!({"type": "http", "url": url});
        if let Some(token) = token {
            tested["headers"] = json!({"Authorization": format!("Bearer {token}")});
        }
        let body = json!({"server": tested, "timeout": MCP_TEST_SECONDS});
        let request = self.post(&["api", "mcp", "test"]);
        let timeout = Duration::from_secs(MCP_TEST_SECONDS + 2);
        let tested: Tested = request.timeout(timeout).json(&body).send().await?;
        Ok(tested.ok)
    }
}

/// Quotes `text` as one word of a shell command.
pub(crate) fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn quoted_text_is_one_word() {
        assert_eq!(shell_quoted("a b"), "'a b'");
        let quoted = shell_quoted("'; rm -rf $HOME `x` \\");
        assert_eq!(quoted, r"''\''; rm -rf $HOME `x` \'");
    }
}
