//! Tasks behind the V1 app server, each with an agent server of its own in a sandbox: starting one,
//! and waking its sandbox.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep, timeout_at};
use upstream::http::Url;
use uuid::Uuid;

use super::spec::TaskSpec;
use super::start_error::uncertain;
use crate::OpenHands;
use crate::api::{AgentServer, AppServer, Failure, NewAppConversation, Sandbox, Servers, TaskId};
use crate::budget::Budget;
use crate::workspace::Repository;

/// For a sandbox that is woken, and between two looks at it.
const WAKE_TIMEOUT: Duration = Duration::from_secs(20);
const WAKE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the task in a sandbox, or finds the one that its key stands for. The sandbox need not be
/// there yet: the app server goes on by itself.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(super) async fn create(
    service: &OpenHands,
    app: &AppServer,
    spec: &TaskSpec,
) -> Result<TaskId, ToolError> {
    let servers = &service.servers;
    let id = spec.key.as_deref();
    let id = id.map_or_else(TaskId::random, TaskId::from_key);
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let new = request(id, spec, profile)?;
    if !service.mcp_servers.is_empty() {
        return Err(impossible(
            "hand MCP servers to a task: add them to OpenHands' own settings instead of \
             OPENHANDS_MCP_SERVERS",
        ));
    }
    if spec.key.is_some() {
        match servers.at(id).await {
            Ok(_) => return Ok(id),
            Err(failure) if failure.is_no_task() => {}
            Err(failure) => match failure.sandbox() {
                Some(Sandbox::NotStarted) => {}
                Some(_) => return Ok(id),
                None => return Err(failure.into()),
            },
        }
    }
    match timeout_at(spec.answer_by, servers.start(app, &new)).await {
        Ok(Ok(())) => {}
        // Asking again could start it twice.
        Ok(Err(failure)) if failure.is_ambiguous() => {
            return Err(uncertain(id, failure.into()));
        }
        Ok(Err(failure)) => return Err(failure.into()),
        Err(_) => {
            let reason = "OpenHands takes too long to start the task.";
            let error = ToolError::new(ToolErrorKind::Timeout, reason);
            return Err(uncertain(id, error));
        }
    }
    tracing::info!(task = %id, "task started in a sandbox");
    Ok(id)
}

/// Returns the agent server of a task that is to go on: a sandbox that is paused is woken.
///
/// # Errors
/// The sandbox does not run, or not yet.
pub(super) async fn wake(servers: &Servers, id: TaskId) -> Result<AgentServer, Failure> {
    let asleep = |failure: &Failure| failure.sandbox() == Some(Sandbox::Paused);
    match servers.at(id).await {
        Err(failure) if asleep(&failure) => servers.wake(id).await?,
        found => return found,
    }
    let until = Instant::now() + WAKE_TIMEOUT;
    loop {
        match servers.at(id).await {
            Err(failure)
                if Instant::now() < until
                    && (asleep(&failure) || failure.sandbox() == Some(Sandbox::Starting)) =>
            {
                sleep(WAKE_POLL_INTERVAL).await;
            }
            found => return found,
        }
    }
}

/// The request for the app server. Its sandbox does not exist before the agent begins, so
/// nothing can be put into it; what limits and permits an agent is kept in its own settings.
fn request(
    id: TaskId,
    spec: &TaskSpec,
    profile: Option<&str>,
) -> Result<NewAppConversation, ToolError> {
    if !spec.workspace.files.is_empty() {
        return Err(impossible(
            "put files into a sandbox before the agent begins: say what is in them in task, or \
             name a repository that holds them",
        ));
    }
    if spec.workspace.directory.is_some() {
        return Err(impossible(
            "choose a workspace: every task has a sandbox of its own; leave workspace out",
        ));
    }
    if spec.confirm.is_some() {
        return Err(impossible(
            "ask for permissions of one task: set the confirmation mode in OpenHands' settings and \
             leave confirm out",
        ));
    }
    if spec.budget != Budget::default() {
        return Err(impossible(
            "limit one task: set limits in OpenHands' settings and leave max_iterations, \
             max_seconds and max_cost out",
        ));
    }
    let agent_profile = profile.map(|profile| {
        Uuid::try_parse(profile).map_err(|_| {
            impossible(
                "find agent profiles by their name: give the profile's id (a UUID), or leave it \
                 out to use the active one",
            )
        })
    });
    let repository = spec.workspace.repository.as_ref().map(|repository| {
        hosted(repository).ok_or_else(|| {
            impossible(
                "check out this repository: it takes those of github.com, gitlab.com and \
                 bitbucket.org, with its own credentials",
            )
        })
    });
    let branch = spec
        .workspace
        .repository
        .as_ref()
        .and_then(|from| from.branch.clone());
    Ok(NewAppConversation {
        id,
        prompt: spec.prompt(),
        repository: repository.transpose()?,
        branch,
        agent_profile: agent_profile.transpose()?,
    })
}

/// The app server's name for the host of a repository, and the repository's name there.
fn hosted(repository: &Repository) -> Option<(&'static str, String)> {
    let url = Url::parse(&repository.url).ok()?;
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

fn impossible(what: &str) -> ToolError {
    ToolError::invalid_argument(format!("The OpenHands V1 app server cannot {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TaskSpec {
        TaskSpec::new("Fix it".into(), Instant::now())
    }

    #[test]
    fn a_repository_has_a_name_at_its_host() {
        let name = |url| hosted(&Repository::new(url, None).unwrap());
        let github = name("https://github.com/owner/name.git");
        assert_eq!(github, Some(("github", "owner/name".into())));
        let gitlab = name("ssh://git@gitlab.com/group/sub/name");
        assert_eq!(gitlab, Some(("gitlab", "group/sub/name".into())));
        for other in ["https://git.example.test/a/b", "https://github.com/a"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_sandbox_cannot_have_is_said() {
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
