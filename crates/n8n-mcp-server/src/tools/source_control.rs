//! The toolset `source_control`. Needs a licence and a connected repository.

use mcp_core::tool::{Call, Effect, Tool, ToolError, Toolset};
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::refusal;
use crate::service::N8n;

const MISSING: &str = "n8n is not connected to a repository (Settings > Environments).";
/// Git goes over the network.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(25);

/// The tools.
pub(crate) fn source_control() -> Toolset<N8n> {
    Toolset::new()
        .with::<SourceControlStatus>()
        .with::<PullFromSourceControl>()
        .with::<PushToSourceControl>()
}

/// A file that differs or was transferred.
#[derive(Serialize, Deserialize, JsonSchema)]
struct File {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    /// workflow, credential, tags, variables, …
    #[serde(default)]
    r#type: String,
    /// new, modified, deleted, …
    #[serde(default)]
    status: String,
    #[serde(default)]
    conflict: bool,
}

#[derive(Serialize, JsonSchema)]
struct Files {
    files: Vec<File>,
}

/// What differs between n8n and its repository.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceControlStatus {
    /// What a pull or a push would transfer; default push.
    direction: Option<Direction>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Push,
    Pull,
}

impl Tool for SourceControlStatus {
    const NAME: &'static str = "source_control_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Files;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Files, ToolError> {
        let direction = match self.direction {
            Some(Direction::Pull) => "pull",
            Some(Direction::Push) | None => "push",
        };
        let (path, query) = (["source-control", "status"], [("direction", direction)]);
        let answer = n8n.api.exchange(Method::GET, &path, &query, None, WITHIN);
        files(n8n, answer.await)
    }
}

/// Brings n8n to the state of its repository; what was changed only in n8n is lost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullFromSourceControl {
    /// Also over conflicts.
    #[serde(default)]
    force: bool,
    /// `repository`, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for PullFromSourceControl {
    const NAME: &'static str = "pull_from_source_control";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Files;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Files, ToolError> {
        let loss = "Overwrites workflows, tags and variables of n8n with those of its repository.";
        call.confirm(loss, "repository", self.confirm.as_deref())
            .await?;
        let (path, body) = (["source-control", "pull"], json!({"force": self.force}));
        let answer = n8n
            .api
            .exchange(Method::POST, &path, &[], Some(&body), WITHIN);
        files(n8n, answer.await)
    }
}

/// Commits and pushes changes of n8n to its repository.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PushToSourceControl {
    /// Of the commit.
    message: String,
    /// Which, from source_control_status.
    files: Vec<Chosen>,
    /// Also over conflicts.
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Chosen {
    /// Of the file.
    id: String,
    /// Of the file.
    r#type: String,
}

impl Tool for PushToSourceControl {
    const NAME: &'static str = "push_to_source_control";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Files;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Files, ToolError> {
        let path = ["source-control", "push"];
        let body =
            json!({"commitMessage": self.message, "fileNames": self.files, "force": self.force});
        let answer = n8n
            .api
            .exchange(Method::POST, &path, &[], Some(&body), WITHIN);
        files(n8n, answer.await)
    }
}

/// The files of an answer, which is a list or holds one.
fn files(n8n: &N8n, answer: Result<Value, crate::api::Failure>) -> Result<Files, ToolError> {
    let answer = answer.map_err(|failure| refusal(n8n, failure, MISSING))?;
    let list = answer.as_array().or_else(|| answer["data"].as_array());
    let files = list.into_iter().flatten();
    Ok(Files {
        files: files
            .filter_map(|file| File::deserialize(file).ok())
            .collect(),
    })
}
