//! `publish_task`

use std::sync::Arc;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use upstream::redact::redacted_code;
use upstream::text::{one_line, visible};
use upstream::time::parse_timestamp;

use crate::OpenHands;
use crate::api::tags::{ConversationTags, tag};
use crate::api::{AgentServer, ApiResult, Conversation, TaskId};
use crate::git::{
    Commit, HostedRepository, NewCommit, PullRequest, Push, Refs, Repository, is_cut, is_ref_name,
    no_forge,
};
use crate::runner::Runner;
use crate::task::{TaskSnapshot, known_exit_code};
use crate::workspace::changed_directory;

const MAX_TITLE_CHARS: usize = 200;
const MAX_BODY_BYTES: usize = 20_000;
/// Bytes of the commit's diff that are searched for secrets.
const SEARCHED_BYTES: usize = 200_000;
/// Characters of a commit's id in the value that confirms it.
const SHORT_ID_CHARS: usize = 12;
/// The note of a branch without a pull request.
const NO_PULL_REQUEST: &str = "No pull request is opened, because the API of this git host is not known: open it by \
     hand, or the operator names the API in OPENHANDS_GIT_HOSTS, such as gitea+https://…";
/// Bytes of the names of files in the question.
const MAX_NAMES_BYTES: usize = 1_500;

/// Publishes a task's changes as one commit: pushes it to a branch and opens a pull or merge request. The
/// user must agree. After more work, another call adds a commit to the branch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishTask {
    /// From run_task.
    task_id: TaskId,
    /// Title of the commit and pull request.
    title: String,
    /// Description.
    body: Option<String>,
    /// New branch; default openhands/ and part of the task_id.
    branch: Option<String>,
    /// Branch to merge into; default the one of the task.
    base: Option<String>,
    /// Git URL; default the one of the task.
    repository: Option<String>,
    /// Default true, if the API of the git host is known.
    pull_request: Option<bool>,
    /// The value from the refusal, if the user agrees.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Publication {
    task_id: TaskId,
    repository: String,
    branch: String,
    commit: String,
    /// Its address.
    pull_request: Option<String>,
    /// Failure of a part.
    warning: Option<String>,
}

/// The part of a publication that has to be done once the user has agreed.
struct Plan {
    server: AgentServer,
    runner: Arc<Runner>,
    id: TaskId,
    task: Conversation,
    hosted: HostedRepository,
    branch: String,
    base: String,
    /// The present commit of the branch.
    tip: Option<String>,
    /// The last commit of the task, if others have added to it.
    own: Option<String>,
    /// `None` if the branch has it already.
    commit: Option<Commit>,
    title: String,
    body: String,
    has_pull_request: bool,
    /// A note that there is no pull request, which the caller has not said.
    no_pull_request: Option<&'static str>,
    /// A note for the user about the check of the task.
    unverified: Option<String>,
}

impl Tool for PublishTask {
    const NAME: &'static str = "publish_task";
    const EFFECT: Effect = Effect::Additive;
    type Service = OpenHands;
    type Output = Publication;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Publication, ToolError> {
        let confirm = self.confirm.clone();
        let plan = self.plan(service, call).await?;
        let question = plan.question();
        let commit = plan.commit_id();
        // The answer is about this content and where it goes.
        let (url, head, base) = (plan.hosted.url(), &plan.branch, &plan.base);
        let place = (url, head, base, &plan.tip, plan.has_pull_request);
        let facts = (commit, place, &plan.title, &plan.body);
        let target = commit.get(..SHORT_ID_CHARS).unwrap_or(commit);
        call.confirm_facts(&question, target, &facts, confirm.as_deref())
            .await?;
        // Goes on if the call ends: a push is not undone.
        let carried_out = tokio::spawn(plan.carry_out()).await;
        carried_out.unwrap_or_else(|_| Err(ToolError::upstream("The publication failed.")))
    }
}

impl PublishTask {
    /// The publication about which the user is asked.
    async fn plan(self, service: &OpenHands, call: &Call) -> Result<Plan, ToolError> {
        let id = self.task_id;
        let (title, body) = self.texts()?;
        let server = service.servers.shared_agent().await?;
        service.check_owner(id, call).await?;
        let snapshot = TaskSnapshot::read(&server, id, None).await?;
        if snapshot.needs_run || !snapshot.conversation.execution_status.is_stopped() {
            return Err(at_work());
        }
        let unverified = unverified(&server, &snapshot).await?;
        let task = snapshot.conversation;
        let tags = &task.tags;
        let (repository, own_branch) = self.repository(tags)?;
        let hosted = service.git_hosts.find(&repository).ok_or_else(|| {
            ToolError::forbidden(
                "The operator has configured no credential for this repository \
                 (OPENHANDS_GIT_HOSTS, OPENHANDS_GIT_TOKENS). get_task_patch gives the changes.",
            )
        })?;
        let refs = hosted.refs().await?;
        let base = self.base(&refs, own_branch)?;
        let (published, publishing) = (tags.published(), tags.publishing());
        let branch = match (self.branch, publishing.or(published)) {
            (Some(branch), _) => branch,
            (None, Some((_, branch))) => branch.to_owned(),
            (None, None) => format!("openhands/{}", id.to_string().get(..8).unwrap_or_default()),
        };
        if !is_ref_name(&branch) || branch == base {
            return Err(ToolError::invalid_field(
                "branch",
                "must be the name of a new branch",
            ));
        }
        let tip = refs.branch(&branch);
        let made = [published, publishing].map(|made| {
            let made = made.filter(|(_, name)| *name == branch);
            made.map(|(commit, _)| commit)
        });
        let is_own = tip.is_some() && made.contains(&tip);
        // The last commit of the task, on the machine of the agent.
        let own = match (tags.get(tag::OWN_COMMIT), made) {
            (None, _) if is_own => tip,
            (_, [_, publishing]) if is_own && publishing == tip => tip,
            (own, [published, _]) => published.and(own).or(published),
        };
        if tip.is_some() && own.is_none() {
            return Err(ToolError::conflict(format!(
                "branch: {branch} exists at the git host with other commits. Choose another name."
            )));
        }
        let time = server
            .last_work(id)
            .await?
            .and_then(|at| parse_timestamp(&at));
        let new = NewCommit {
            message: &match body.is_empty() {
                true => title.clone(),
                false => format!("{title}\n\n{body}"),
            },
            time: time.unwrap_or_else(|| task.last_event_at()).as_second(),
            parent: tip.and(own),
            host: refs.branch(&base),
            // One byte more shows that there is more.
            diff_bytes: SEARCHED_BYTES + 1,
        };
        let directory = changed_directory(&server, &task).await?;
        let commit = Commit::try_new(&server, &directory, &new).await?;
        let can_open = hosted.has_pull_requests();
        if self.pull_request == Some(true) && !can_open {
            return Err(no_forge());
        }
        let has_pull_request = can_open && self.pull_request != Some(false);
        let no_pull_request = (!can_open && self.pull_request.is_none()).then_some(NO_PULL_REQUEST);
        if commit.is_none() && (tip.is_none() || !has_pull_request) {
            return Err(ToolError::conflict(
                "There is nothing to publish: the task has changed no file, or the branch has all its changes.",
            ));
        }
        Ok(Plan {
            own: own
                .filter(|own| tip.is_some_and(|tip| tip != *own))
                .map(str::to_owned),
            tip: tip.map(str::to_owned),
            runner: Arc::clone(&service.runner),
            server,
            id,
            task,
            hosted,
            branch,
            base,
            commit,
            title,
            body,
            has_pull_request,
            no_pull_request,
            unverified,
        })
    }

    fn texts(&self) -> Result<(String, String), ToolError> {
        let title = one_line(&self.title, MAX_TITLE_CHARS);
        let body = self.body.clone().unwrap_or_default();
        if title.trim().is_empty() || body.len() > MAX_BODY_BYTES || body.contains('\0') {
            return Err(ToolError::invalid_argument(format!(
                "title must not be empty, and body must have at most {MAX_BODY_BYTES} bytes of text."
            )));
        }
        Ok((title, body))
    }

    fn repository<'a>(
        &self,
        tags: &'a ConversationTags,
    ) -> Result<(Repository, Option<&'a str>), ToolError> {
        let (url, branch) = match (&self.repository, tags.repository()) {
            (Some(url), _) => (url.as_str(), None),
            (None, Some(own)) => own,
            (None, None) => {
                return Err(ToolError::conflict(
                    "The task was started without context.repository: say repository.",
                ));
            }
        };
        let repository = Repository::new(url, None);
        let repository = repository.map_err(|reason| {
            ToolError::invalid_argument(reason.replace("context.repository", "repository"))
        })?;
        Ok((repository, branch))
    }

    /// The branch to merge into.
    fn base(&self, refs: &Refs, own_branch: Option<&str>) -> Result<String, ToolError> {
        if let Some(base) = &self.base {
            return match refs.branch(base) {
                Some(_) => Ok(base.clone()),
                None => Err(ToolError::not_found(
                    "base: the repository has no such branch.",
                )),
            };
        }
        // The task may have begun at a tag.
        let own = own_branch.filter(|own| refs.branch(own).is_some());
        let default = refs.default_branch.as_deref();
        let default = default.filter(|name| is_ref_name(name));
        let none = || ToolError::conflict("The repository has no default branch: say base.");
        own.or(default).map(str::to_owned).ok_or_else(none)
    }
}

impl Plan {
    fn commit_id(&self) -> &str {
        let commit = self.commit.as_ref().map(|commit| commit.id.as_str());
        commit.or(self.tip.as_deref()).unwrap_or_default()
    }

    fn question(&self) -> String {
        let (repository, branch) = (self.hosted.url(), &self.branch);
        let mut text = match &self.commit {
            Some(commit) => format!(
                "Pushes the changes of the task ({}) to the branch {branch} of {repository}",
                commit.summary
            ),
            None => format!("Uses the branch {branch} of {repository}, which has all changes"),
        };
        if self.own.is_some() && self.commit.is_some() {
            text += ", after the commits that others have made there";
        }
        if self.has_pull_request {
            text += &format!(
                " and opens a pull request into {}, unless there is one",
                self.base
            );
        }
        text += &format!(", titled {:?}.", self.title);
        if !self.body.is_empty() {
            text += &format!("\n\n{}\n\n", redacted_code(&visible(&self.body)));
        }
        if [&self.title, &self.body].map(|text| redacted_code(text) != **text) != [false; 2] {
            text += " Attention: the title or the description contains what looks like a secret.";
        }
        if let Some(note) = self.no_pull_request {
            text += &format!(" {note}");
        }
        if let Some(unverified) = &self.unverified {
            text += unverified;
        }
        let Some(commit) = &self.commit else {
            return text;
        };
        let names = commit.lines(MAX_NAMES_BYTES);
        let left_out = commit.left_out(MAX_NAMES_BYTES);
        text += &format!(" The files: {}.", names.join(", "));
        if !left_out.is_empty() {
            text += &format!(
                " Not published, because they are in other repositories: {}.",
                left_out.join(", ")
            );
        }
        if [names, left_out].iter().any(|lines| is_cut(lines)) {
            text += " get_task_changes lists all.";
        }
        if let Some(shared) = commit.shared {
            text += &format!(" {shared}");
        }
        if redacted_code(&commit.diff) != commit.diff {
            text += " Attention: the changes contain what looks like a secret.";
        }
        if commit.diff.len() > SEARCHED_BYTES {
            text += " Only their first 200 kB were searched for secrets.";
        }
        text
    }

    async fn carry_out(self) -> Result<Publication, ToolError> {
        let Self {
            server, id, hosted, ..
        } = &self;
        let _lock = self.runner.locks.lock(*id).await;
        let mut warnings: Vec<String> = self
            .no_pull_request
            .map(str::to_owned)
            .into_iter()
            .collect();
        let mut pushed = None;
        if let Some(commit) = &self.commit {
            let directory = changed_directory(server, &self.task).await?;
            let own = self.own.as_deref();
            let known = own.map_or(&commit.parent, |_| &commit.from);
            let bundle = commit.bundle(server, *id, &directory, known).await?;
            let now = server.conversation(*id).await?;
            if !now.execution_status.is_stopped() {
                return Err(at_work());
            }
            // Before the push: its answer, or the record of it, may be lost.
            let mut tags = ConversationTags::from_task(&now);
            let publishing = format!("{} {}", commit.id, self.branch);
            tags.set(tag::PUBLISHING, Some(publishing));
            server.set_tags(*id, &tags).await?;
            let push = Push {
                branch: &self.branch,
                old: self.tip.as_deref(),
                commit: &commit.id,
                known,
                base: &self.base,
                bundle: &bundle,
                merged_from: own,
            };
            pushed = Some(hosted.push(&push).await?);
            let new = pushed.as_deref().unwrap_or_default();
            tracing::info!(task = %id, branch = self.branch, "task published");
            let record = async {
                let mut tags = ConversationTags::from_task(&server.conversation(*id).await?);
                tags.set_published(new, &self.branch, &commit.id);
                server.set_tags(*id, &tags).await
            };
            if let Err(failure) = record.await {
                let reason = ToolError::from(failure);
                let reason = reason.message();
                warnings.push(format!("The push could not be recorded: {reason}"));
            }
        }
        let opened = match self.has_pull_request {
            true => {
                let new = PullRequest {
                    branch: &self.branch,
                    base: &self.base,
                    title: &self.title,
                    body: &self.body,
                };
                hosted.open_pull_request(&new).await.map(Some)
            }
            false => Ok(None),
        };
        let pull_request = opened.unwrap_or_else(|error| {
            let reason = error.message();
            warnings.push(format!(
                "The branch was pushed, but no pull request is known: {reason} Call publish_task again, which opens no \
                 second one, or open it by hand."
            ));
            None
        });
        Ok(Publication {
            task_id: *id,
            repository: hosted.url(),
            commit: pushed.unwrap_or_else(|| self.commit_id().to_owned()),
            branch: self.branch,
            pull_request,
            warning: Some(warnings.join(" ")).filter(|text| !text.is_empty()),
        })
    }
}

/// A note for the user about the check of the task; `None` if it succeeded, or there is none.
async fn unverified(server: &AgentServer, task: &TaskSnapshot) -> ApiResult<Option<String>> {
    if task.conversation.tags.get(tag::VERIFY).is_none() {
        return Ok(None);
    }
    Ok(match known_exit_code(server, task).await? {
        Some(0) => None,
        Some(code) => Some(format!(
            " Attention: verified is false, its verify command failed (exit code {code})."
        )),
        None => Some(" Attention: its verify command has no outcome for this state.".to_owned()),
    })
}

fn at_work() -> ToolError {
    ToolError::conflict("The task is still at work: call wait_task or cancel_task first.")
}
