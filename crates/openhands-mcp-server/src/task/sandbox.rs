//! Tasks behind a V1 app server: starting one in a sandbox, and resuming its sandbox.

use std::time::Duration;

use mcp_core::tool::{Call, ToolError};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::spec::TaskSpec;
use super::start_error::{start_before, uncertain};
use crate::OpenHands;
use crate::api::{
    AgentServer, ApiFailure, ApiResult, AppServer, NewAppConversation, SandboxProblem, Servers,
    TaskId,
};
use crate::budget::BudgetRequest;
use crate::git::Repository;

/// The time for a sandbox to resume, and the poll interval.
const WAKE_TIMEOUT: Duration = Duration::from_secs(20);
const WAKE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the task in a sandbox, or finds the existing one with its idempotency key. Does not wait for
/// the sandbox: the app server starts the agent in it.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(super) async fn create(
    service: &OpenHands,
    app: &AppServer,
    spec: &TaskSpec,
    call: &Call,
) -> Result<TaskId, ToolError> {
    let servers = &service.servers;
    let id = spec.key.as_deref().map(|key| service.key_id(key, call));
    let id = id.or(spec.id).unwrap_or_else(TaskId::random);
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let new = request(id, spec, profile)?;
    if !service.mcp_servers.is_empty() {
        return Err(unsupported(
            "pass MCP servers to a task: add them to OpenHands' own settings instead of \
             OPENHANDS_MCP_SERVERS",
        ));
    }
    if spec.key.is_some() {
        match servers.for_task(id).await {
            Ok(_) => return Ok(id),
            Err(failure) if failure.is_unknown_task() => {}
            Err(failure) => match failure.sandbox_problem() {
                Some(SandboxProblem::NotStarted | SandboxProblem::Cancelled) => {}
                Some(_) => return Ok(id),
                None => return Err(failure.into()),
            },
        }
    }
    let start = async {
        let started = servers.start(app, &new).await;
        started.map_err(|failure| match failure.is_ambiguous() {
            // No retry: it could start the task twice.
            true => uncertain(id, failure.into()),
            false => failure.into(),
        })
    };
    start_before(spec.answer_by, id, start).await?;
    tracing::info!(task = %id, "task started in a sandbox");
    Ok(id)
}

/// Returns the agent server of a task. Resumes its sandbox first if it is paused.
///
/// # Errors
/// The sandbox does not run, or not yet.
pub(super) async fn wake(servers: &Servers, id: TaskId) -> ApiResult<AgentServer> {
    let is_paused =
        |failure: &ApiFailure| failure.sandbox_problem() == Some(SandboxProblem::Paused);
    match servers.for_task(id).await {
        Err(failure) if is_paused(&failure) => servers.resume_sandbox(id).await?,
        found => return found,
    }
    let until = Instant::now() + WAKE_TIMEOUT;
    loop {
        match servers.for_task(id).await {
            Err(failure)
                if Instant::now() < until
                    && (is_paused(&failure)
                        || failure.sandbox_problem() == Some(SandboxProblem::Starting)) =>
            {
                sleep(WAKE_POLL_INTERVAL).await;
            }
            found => return found,
        }
    }
}

/// This server keeps no state of tasks, and the app server none for it before the sandbox runs.
const NO_CALLBACK: &str = "keep a URL for the result of a task, so a restart would lose it: leave \
    callback_url out. wait_task waits for the end, and for clients with tasks of the protocol run_task \
    does for up to 55 minutes";

/// The request for the app server. The sandbox does not exist before the agent starts, so no files
/// can be put into it. The agent's limits and permissions are settings of the app server.
fn request(
    id: TaskId,
    spec: &TaskSpec,
    profile: Option<&str>,
) -> Result<NewAppConversation, ToolError> {
    let workspace = &spec.workspace;
    let agent_profile = profile.map(Uuid::try_parse).transpose();
    let repository = workspace.repository.as_ref();
    let hosted = repository.map(hosted);
    let refusals = [
        (
            !workspace.files.is_empty(),
            "put files into a sandbox before the agent starts: say what is in them in task, or \
             name a repository that holds them",
        ),
        (
            workspace.directory.is_some(),
            "choose a workspace: every task has its own sandbox; leave workspace out",
        ),
        (
            workspace.depth.is_some(),
            "choose how much history is fetched: leave context.depth out",
        ),
        (
            spec.verify.is_some(),
            "check a task with a command: have the agent run it, and leave verify out",
        ),
        (spec.callback.is_some(), NO_CALLBACK),
        (
            spec.model.is_some(),
            "choose the model of one task: name an agent profile with that model in agent",
        ),
        (
            spec.confirm.is_some(),
            "ask for permissions of one task: set the confirmation mode in OpenHands' settings and \
             leave confirm out",
        ),
        (
            spec.budget != BudgetRequest::default(),
            "limit one task: set limits in OpenHands' settings and leave max_iterations, \
             max_seconds and max_cost out",
        ),
        (
            agent_profile.is_err(),
            "find agent profiles by their name: give the profile's id (a UUID), or leave it out to \
             use the active one",
        ),
        (
            hosted == Some(None),
            "check out this repository: it takes those of github.com, gitlab.com and \
             bitbucket.org, with its own credentials",
        ),
    ];
    if let Some((_, what)) = refusals.iter().find(|(is_asked, _)| *is_asked) {
        return Err(unsupported(what));
    }
    Ok(NewAppConversation {
        id,
        prompt: spec.prompt(),
        repository: hosted.flatten(),
        branch: repository.and_then(|repository| repository.branch.clone()),
        agent_profile: agent_profile.ok().flatten(),
    })
}

/// The git provider of a repository as the app server calls it, and the repository's name there.
fn hosted(repository: &Repository) -> Option<(&'static str, String)> {
    let url = repository.parsed()?;
    let provider = match url.host_str()? {
        "github.com" => "github",
        "gitlab.com" => "gitlab",
        "bitbucket.org" => "bitbucket",
        _ => return None,
    };
    let name = url.path().trim_matches('/');
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_name = name.split('/').count() >= 2 && !name.split('/').any(str::is_empty);
    is_name.then(|| (provider, name.to_owned()))
}

/// The error for a task in a sandbox that goes on with a callback_url.
pub(super) fn no_callback() -> ToolError {
    unsupported(NO_CALLBACK)
}

fn unsupported(what: &str) -> ToolError {
    ToolError::invalid_argument(format!("The OpenHands V1 app server cannot {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TaskSpec {
        TaskSpec::new("Fix it".into(), Instant::now())
    }

    #[test]
    fn repository_has_a_provider_and_a_name() {
        let name = |url| hosted(&Repository::new(url, None).unwrap());
        let github = name("https://github.com/owner/name.git");
        assert_eq!(github, Some(("github", "owner/name".into())));
        assert_eq!(name("git@github.com:owner/name.git"), github);
        let gitlab = name("ssh://git@gitlab.com/group/sub/name");
        assert_eq!(gitlab, Some(("gitlab", "group/sub/name".into())));
        for other in ["https://git.example.test/a/b", "https://github.com/a"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn unsupported_requests_are_refused() {
        let id = TaskId::random();
        let mut whole = spec();
        whole.workspace.repository = Repository::new("https://github.com/o/n", Some("dev")).ok();
        let profile = Uuid::from_u128(7).to_string();
        let new = request(id, &whole, Some(&profile)).unwrap();
        assert_eq!(new.repository, Some(("github", "o/n".into())));
        assert_eq!(new.branch.as_deref(), Some("dev"));
        assert_eq!(new.agent_profile, Some(Uuid::from_u128(7)));
        let mut limited = spec();
        limited.budget.seconds = Some(5);
        for (spec, profile) in [(limited, None), (spec(), Some("default"))] {
            let error = request(id, &spec, profile).unwrap_err();
            assert!(error.message().contains("V1 app server cannot"), "{error}");
        }
    }
}
