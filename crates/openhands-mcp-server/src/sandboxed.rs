//! Tasks behind the V1 app server, each with an agent server of its own in a sandbox: from an order
//! to a start, and back to a sandbox that runs.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::Url;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::OpenHands;
use crate::api::{AgentServer, AppServer, Failure, NewAppConversation, Sandbox};
use crate::order::{Budget, Order};
use crate::repository::Repository;
use crate::start::uncertain;
use crate::status::{TaskStatus, Verdict};
use crate::task_id::TaskId;

/// How long is waited for a sandbox that is woken, and between two looks at it.
const WAKING: Duration = Duration::from_secs(20);
const WAKING_POLL: Duration = Duration::from_secs(1);

impl OpenHands {
    /// Starts the task in a sandbox, or finds the one that its key stands for. The sandbox need not
    /// be there yet: the app server goes on by itself.
    ///
    /// # Errors
    /// No task was started, unless the message says that this is not certain.
    pub(crate) async fn start_sandboxed(
        &self,
        app: &AppServer,
        order: &Order,
    ) -> Result<TaskId, ToolError> {
        let id = order.key.as_deref();
        let id = id.map_or_else(TaskId::random, TaskId::of_key);
        let profile = order.agent.as_deref().or(self.profile.as_deref());
        let new = request(id, order, profile)?;
        if !self.mcp_servers.is_empty() {
            return Err(impossible(
                "hand MCP servers to a task: add them to OpenHands' own settings instead of \
                 OPENHANDS_MCP_SERVERS",
            ));
        }
        if order.key.is_some() {
            match self.at(id).await {
                Ok(_) => return Ok(id),
                Err(failure) if failure.is_no_task() => {}
                Err(failure) => match failure.sandbox() {
                    Some(Sandbox::NotStarted) => {}
                    Some(_) => return Ok(id),
                    None => return Err(failure.into()),
                },
            }
        }
        match timeout_at(order.answer_by, self.servers.start(app, &new)).await {
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

    /// The agent server of a task that is to go on: a sandbox that is paused is woken.
    ///
    /// # Errors
    /// The sandbox does not run, or not yet.
    pub(crate) async fn awake(&self, id: TaskId) -> Result<AgentServer, Failure> {
        let asleep = |failure: &Failure| failure.sandbox() == Some(Sandbox::Paused);
        match self.at(id).await {
            Err(failure) if asleep(&failure) => self.servers.wake(id).await?,
            found => return found,
        }
        let until = Instant::now() + WAKING;
        loop {
            match self.at(id).await {
                Err(failure)
                    if Instant::now() < until
                        && (asleep(&failure) || failure.sandbox() == Some(Sandbox::Starting)) =>
                {
                    sleep(WAKING_POLL).await;
                }
                found => return found,
            }
        }
    }
}

/// What the app server is asked to start. Its sandbox does not exist before the agent begins, so
/// nothing can be put into it; what limits and permits an agent is kept in its own settings.
fn request(
    id: TaskId,
    order: &Order,
    profile: Option<&str>,
) -> Result<NewAppConversation, ToolError> {
    if !order.files.is_empty() {
        return Err(impossible(
            "put files into a sandbox before the agent begins: say what is in them in task, or \
             name a repository that holds them",
        ));
    }
    if order.workspace.is_some() {
        return Err(impossible(
            "choose a workspace: every task has a sandbox of its own; leave workspace out",
        ));
    }
    if order.confirm.is_some() {
        return Err(impossible(
            "ask for permissions of one task: set the confirmation mode in OpenHands' settings and \
             leave confirm out",
        ));
    }
    if order.budget != Budget::default() {
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
    let repository = order.repository.as_ref().map(|repository| {
        hosted(repository).ok_or_else(|| {
            impossible(
                "check out this repository: it takes those of github.com, gitlab.com and \
                 bitbucket.org, with its own credentials",
            )
        })
    });
    let branch = order
        .repository
        .as_ref()
        .and_then(|from| from.branch.clone());
    Ok(NewAppConversation {
        id,
        prompt: order.prompt(),
        repository: repository.transpose()?,
        branch,
        agent_profile: agent_profile.transpose()?,
    })
}

/// What the app server calls the host of a repository, and the repository's name there.
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

impl Verdict {
    /// What a task does whose sandbox does not run.
    pub(crate) fn in_sandbox(sandbox: Sandbox) -> Self {
        use TaskStatus as S;
        let (status, error, next) = match sandbox {
            Sandbox::Starting => (
                S::Queued,
                None,
                "Its sandbox is being started; it begins by itself. Ask wait_task.",
            ),
            Sandbox::Paused => (
                S::Paused,
                None,
                "Its sandbox is paused: resume_task or send_message wakes it.",
            ),
            Sandbox::Broken => (
                S::Failed,
                Some("Its sandbox is broken, so nothing more can be said of it."),
                "Look at the sandbox in OpenHands, or run the task again.",
            ),
            Sandbox::Gone => (
                S::Failed,
                Some("Its sandbox has been removed, and with it all that it did there."),
                "Run it again if it is still needed.",
            ),
            Sandbox::NotStarted => (
                S::Failed,
                Some("OpenHands could not start its sandbox or its agent."),
                "Check the model and the git credentials in OpenHands' settings; its log says \
                 more. Then run it again.",
            ),
        };
        Self {
            status,
            error: error.map(str::to_owned),
            next: Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order::new("Fix it".into(), Instant::now())
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
        let mut whole = order();
        whole.repository = Repository::new("https://github.com/o/n", Some("dev")).ok();
        let profile = Uuid::from_u128(7).to_string();
        let new = request(id, &whole, Some(&profile)).unwrap();
        assert_eq!(new.repository, Some(("github", "o/n".into())));
        assert_eq!(new.branch.as_deref(), Some("dev"));
        assert_eq!(new.agent_profile, Some(Uuid::from_u128(7)));
        let mut limited = order();
        limited.budget.seconds = Some(5);
        for (order, profile) in [(limited, None), (order(), Some("default"))] {
            let error = request(id, &order, profile).unwrap_err();
            assert!(error.message().contains("V1 app server cannot"), "{error}");
        }
    }
}
