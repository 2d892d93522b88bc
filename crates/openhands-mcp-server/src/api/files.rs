//! Files and shell scripts on the machine of the agent server. All scripts are ours; values from callers are quoted as
//! single words.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};
use upstream::http::StatusCode;
use upstream::http::header::{CONTENT_RANGE, RANGE};
use upstream::http::multipart::{Form, Part};
use uuid::Uuid;

use crate::api::agent_server::{AgentServer, Page};
use crate::api::failure::{ApiFailure, ApiResult};
use crate::api::names::TaskId;

/// A file is at most as large as a request to us, 4 MiB.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A range of bytes of a file.
pub(crate) struct FilePart {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the whole file.
    pub(crate) size: u64,
}

impl AgentServer {
    /// The home directory of the agent server, absolute.
    pub(crate) async fn home(&self) -> ApiResult<String> {
        #[derive(Deserialize)]
        struct HomeDirectory {
            home: String,
        }
        let request = self.get(&["api", "file", "home"]);
        let found: HomeDirectory = self.send(request).await?;
        Ok(found.home)
    }

    /// Reads at most `length` bytes of a file in the conversation's workspace, starting at `offset`.
    /// `file` is relative. The agent server follows links and refuses files outside of the workspace.
    pub(crate) async fn workspace_file(
        &self,
        id: TaskId,
        file: &str,
        offset: u64,
        length: u64,
    ) -> ApiResult<FilePart> {
        let id_text = id.to_string();
        let mut path = vec!["api", "conversations", &*id_text, "workspace"];
        path.extend(file.split('/'));
        let range = format!("bytes={offset}-{}", offset + length - 1);
        let request = self.get(&path);
        let request = request.with(|request| request.header(RANGE, range));
        let response = match self.response(request).await {
            // An empty file has no first byte, and a shorter one not this one.
            Err(failure) if failure.status() == Some(StatusCode::RANGE_NOT_SATISFIABLE) => {
                let size = match offset {
                    0 => 0,
                    _ => Box::pin(self.workspace_file(id, file, 0, 1)).await?.size,
                };
                return Ok(FilePart {
                    bytes: Vec::new(),
                    size,
                });
            }
            response => response?,
        };
        // `bytes 0-9/200`. An agent server without support for ranges sends the whole file.
        let size = response.headers.get(CONTENT_RANGE).and_then(|range| {
            let (_, size) = range.to_str().ok()?.split_once('/')?;
            size.parse().ok()
        });
        Ok(FilePart {
            size: size.unwrap_or(response.body.len() as u64),
            bytes: response.body,
        })
    }

    /// Writes a file. `path` is absolute; missing directories are created.
    pub(crate) async fn upload(&self, path: &str, content: Vec<u8>) -> ApiResult<()> {
        // A file name is required, but ignored: `path` decides.
        let form = Form::new().part("file", Part::bytes(content).file_name("file"));
        let request = self.post(&["api", "file", "upload"]);
        let request = request.query(&[("path", path)]);
        let request = request.with(|request| request.multipart(form));
        let uploaded = self.perform(request.timeout(UPLOAD_TIMEOUT)).await;
        uploaded.map_err(ApiFailure::without_effect)
    }
}

/// Our scripts inspect a directory and call git: milliseconds, or seconds in a large repository.
const SCRIPT_SECONDS: u64 = 10;

/// Minutes after which a claim that nobody has released is void. A start takes less.
const CLAIM_MINUTES: u32 = 2;
/// The interval at which a claim is asked for again, or its release repeated.
const CLAIM_INTERVAL: Duration = Duration::from_millis(500);
/// Attempts to release a claim; without that, nobody gets it for minutes.
const MAX_RELEASES: u32 = 5;
/// The directory of claims.
const CLAIMS: &str = "\"${TMPDIR:-/tmp}/mcp-starts-$(id -u)\"";

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
    /// Runs a script to its end. Most only look; what the others leave is found by the next run.
    pub(crate) async fn run_script(&self, script: &str) -> ApiResult<ScriptOutput> {
        let timeout = Duration::from_secs(SCRIPT_SECONDS + 2);
        let body = json!({"command": script, "timeout": SCRIPT_SECONDS});
        let request = self.post(&["api", "bash", "execute_bash_command"]);
        let printed = self.send(request.timeout(timeout).body(&body)).await;
        printed.map_err(ApiFailure::without_effect)
    }

    /// Starts a script that may run for `seconds`. Returns its id.
    pub(crate) async fn start_script(&self, script: &str, seconds: u64) -> ApiResult<Uuid> {
        #[derive(Deserialize)]
        struct StartedScript {
            id: Uuid,
        }
        let body = json!({"command": script, "timeout": seconds});
        let request = self.post(&["api", "bash", "start_bash_command"]);
        let started = self.send::<StartedScript>(request.body(&body)).await;
        Ok(started.map_err(ApiFailure::without_effect)?.id)
    }

    /// The output of a started script; `None` while it runs.
    pub(crate) async fn finished_script(&self, id: Uuid) -> ApiResult<Option<ScriptOutput>> {
        let request = self.get(&["api", "bash", "bash_events", "search"]);
        let request = request.query(&[
            ("command_id__eq", &*id.simple().to_string()),
            ("kind__eq", "BashOutput"),
            ("sort_order", "TIMESTAMP_DESC"),
            ("limit", "1"),
        ]);
        let page: Page<ScriptOutput> = self.send(request).await?;
        let newest = page.items.into_iter().next();
        Ok(newest.filter(|output| output.exit_code.is_some()))
    }
}

/// A claim on the machine of the agent server, which one call of all servers before it has at a time: a directory that only
/// one can make.
pub(crate) struct Claim {
    server: AgentServer,
    id: TaskId,
    attempt: Uuid,
}

impl Claim {
    /// Takes the claim `id`. Returns `None` if another call has it until `until`.
    pub(crate) async fn take(
        server: &AgentServer,
        id: TaskId,
        until: Instant,
    ) -> ApiResult<Option<Self>> {
        let attempt = Uuid::new_v4();
        let claim = Self {
            server: server.clone(),
            id,
            attempt,
        };
        let script = format!(
            "mkdir -p -m 700 -- {CLAIMS} && cd -- {CLAIMS} || exit 0\n\
             find . -mindepth 1 -maxdepth 1 -mmin +{CLAIM_MINUTES} -exec rm -rf -- {{}} + 2>/dev/null\n\
             if mkdir -- {id} 2>/dev/null; then mkdir -- {id}/{attempt}; exit 0; fi\n\
             [ -d {id}/{attempt} ] || [ ! -d {id} ]\n"
        );
        loop {
            match server.run_script(&script).await {
                Ok(made) if made.exit_code != Some(1) => return Ok(Some(claim)),
                Ok(_) => {}
                Err(failure) => {
                    claim.release();
                    return Err(failure);
                }
            }
            if Instant::now() + CLAIM_INTERVAL > until {
                return Ok(None);
            }
            sleep(CLAIM_INTERVAL).await;
        }
    }

    /// Releases the claim after what it was taken for, unless that may be at work still, since a request had no response:
    /// the claim is void later.
    pub(crate) fn release_after<T>(self, done: &Result<T, ToolError>) {
        if !matches!(done, Err(error) if error.kind() == ToolErrorKind::Timeout) {
            self.release();
        }
    }

    fn release(self) {
        let Self {
            server,
            id,
            attempt,
        } = self;
        let script = format!("rmdir -- {CLAIMS}/{id}/{attempt} && rmdir -- {CLAIMS}/{id}");
        tokio::spawn(async move {
            for _ in 0..MAX_RELEASES {
                let Err(failure) = server.run_script(&script).await else {
                    return;
                };
                tracing::warn!(claim = %id, ?failure, "cannot release a claim");
                sleep(CLAIM_INTERVAL).await;
            }
        });
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
        let request = request.timeout(timeout).body(&body);
        Ok(self.send::<Tested>(request).await?.ok)
    }
}

/// Quotes `text` as one word of a shell command.
pub(crate) fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
