//! The toolset `source_control`. Needs a licence and a connected repository.

use std::time::Duration;

use upstream::http::Request;

use crate::tools::prelude::*;

const MISSING: &str = "n8n is not connected to a repository (Settings > Environments).";
/// Git goes over the network.
const GIT_TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) fn source_control() -> Toolset<N8n> {
    Toolset::new()
        .with::<SourceControlStatus>()
        .with::<PullFromSourceControl>()
        .with::<PushToSourceControl>()
}

/// A file that differs or was transferred.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SourceFile {
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
struct SourceFiles {
    files: Vec<SourceFile>,
}

/// Differences between n8n and its repository.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceControlStatus {
    /// Of a pull or a push; default push.
    direction: Option<Direction>,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    #[default]
    Push,
    Pull,
}

impl Tool for SourceControlStatus {
    const NAME: &'static str = "source_control_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = SourceFiles;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<SourceFiles, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let (path, direction) = (
            ["source-control", "status"],
            self.direction.unwrap_or_default(),
        );
        files(
            n8n.api
                .request(Method::GET, &path)
                .query(&[("direction", direction)]),
        )
        .await
    }
}

/// Brings n8n to the state of its repository; what was changed only in n8n is lost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullFromSourceControl {
    /// Despite conflicts.
    #[serde(default)]
    force: bool,
    /// `repository`, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for PullFromSourceControl {
    const NAME: &'static str = "pull_from_source_control";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = SourceFiles;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<SourceFiles, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let loss = "Overwrites workflows, tags and variables of n8n with those of its repository.";
        call.confirm(loss, "repository", self.confirm.as_deref())
            .await?;
        let (path, body) = (["source-control", "pull"], json!({"force": self.force}));
        files(n8n.api.request(Method::POST, &path).body(&body)).await
    }
}

/// Commits and pushes changes of n8n to its repository.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PushToSourceControl {
    /// Of the commit.
    message: String,
    /// From source_control_status.
    files: Vec<Chosen>,
    /// Despite conflicts.
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
    type Output = SourceFiles;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<SourceFiles, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let path = ["source-control", "push"];
        let body =
            json!({"commitMessage": self.message, "fileNames": self.files, "force": self.force});
        files(n8n.api.request(Method::POST, &path).body(&body)).await
    }
}

/// The files in an answer, which is a list or an object with one.
async fn files(request: Request) -> Result<SourceFiles, ToolError> {
    let answer = request.timeout(GIT_TIMEOUT).json().await;
    let answer: Value = answer.map_err(|failure| refusal(failure, MISSING))?;
    let list = answer.as_array().or_else(|| answer["data"].as_array());
    let files = list.into_iter().flatten();
    let files = files.filter_map(|file| SourceFile::deserialize(file).ok());
    Ok(SourceFiles {
        files: files.collect(),
    })
}
