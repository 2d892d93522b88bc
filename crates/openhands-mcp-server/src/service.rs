//! The state that all tools share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use mcp_core::server::ChangeNotifier;
use mcp_core::tool::Call;
use mcp_serve::Secret;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::Options;
use crate::api::tags::{ConversationTags, tag};
use crate::api::{AgentServer, ApiFailure, ApiResult, Backend, Servers, TaskId};
use crate::budget::Limits;
use crate::callback::Callbacks;
use crate::git::GitHosts;
use crate::named_urls::NamedUrl;
use crate::runner::Runner;
use crate::workspace::{check_root, mcp_servers};

/// The timeout of calls until the server has started.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Owners that are kept in memory; they never change.
const MAX_OWNERS: usize = 10_000;

/// The directory for the directories of principals, below the root of tasks.
const DIRECTORY: &str = ".mcp-principals";

/// The name of the principal that creates a task, or asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) String);

impl Owner {
    /// The id of the principal, as it is kept at a task. Names may be too long for a tag.
    pub(crate) fn id(&self) -> String {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.as_bytes());
        id.simple().to_string()
    }

    /// Returns true if the principal may see a task with these tags: its own, or one without an owner.
    pub(crate) fn may_see(&self, tags: &ConversationTags) -> bool {
        tags.get(tag::OWNER).is_none_or(|owner| owner == self.id())
    }

    /// The caller's key, which other principals may use for their own tasks.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.id())
    }

    /// The root of its tasks, below the `root` of all.
    pub(crate) fn root(&self, root: &str) -> String {
        format!("{root}/{DIRECTORY}/{}", self.id())
    }
}

/// The shared state of all tools. The state of tasks is kept at the agent server.
pub(crate) struct OpenHands {
    pub(crate) servers: Servers,
    /// The name of the agent profile; `None` for the active one.
    pub(crate) profile: Option<String>,
    /// Directories below which tasks may work. New directories of tasks are created in the first one.
    pub(crate) roots: Vec<String>,
    pub(crate) max_budget: Limits,
    /// The MCP servers that the agents of tasks may call.
    pub(crate) mcp_servers: Vec<NamedUrl>,
    /// The git hosts for which there is a credential.
    pub(crate) git_hosts: GitHosts,
    pub(crate) runner: Arc<Runner>,
    pub(crate) callbacks: Callbacks,
    /// The timeout of calls, and whether this server is read-only, once it has started.
    pub(crate) started: OnceLock<(Duration, bool)>,
    /// All principals see all tasks.
    share_tasks: bool,
    /// The owners of tasks that were asked for; `None` for tasks without an owner.
    owners: Mutex<HashMap<TaskId, Option<String>>>,
    /// Notifies clients of changes of the resources to which they subscribe.
    pub(crate) changes: ChangeNotifier,
}

impl OpenHands {
    /// Does not connect.
    ///
    /// # Errors
    /// An option is invalid; the error names it and the reason.
    pub(crate) fn new(options: Options) -> anyhow::Result<Self> {
        let key = Secret::new(options.openhands_api_key, options.openhands_api_key_file);
        let root =
            |name: &str, root: &str| check_root(root).map_err(|reason| anyhow!("{name} {reason}"));
        let own = root(
            "OPENHANDS_WORKSPACE_ROOT",
            &options.openhands_workspace_root,
        )?;
        let mut roots = vec![own];
        // Compose files forward unset variables as empty ones.
        let others = options.openhands_workspaces.iter().map(|name| name.trim());
        for other in others.filter(|name| !name.is_empty()) {
            roots.push(root("OPENHANDS_WORKSPACES", other)?);
        }
        let cost = options.max_cost;
        ensure!(
            cost.is_none_or(|cost| cost.is_finite() && cost > 0.0),
            "OPENHANDS_MAX_COST must be more than 0"
        );
        let mcp_servers = mcp_servers::parse_options(
            &options.openhands_mcp_servers,
            &options.openhands_mcp_tokens,
            &options.openhands_mcp_token_files,
        )?;
        let git_hosts = GitHosts::parse_options(
            &options.openhands_git_hosts,
            &options.openhands_git_tokens,
            &options.openhands_git_token_files,
        )?;
        let callbacks = Callbacks::new(
            &options.openhands_callback_hosts,
            Secret::new(
                options.openhands_callback_token,
                options.openhands_callback_token_file,
            ),
        )?;
        let profile = options.openhands_agent_profile;
        let url = options.openhands_url;
        ensure!(
            matches!(url.scheme(), "http" | "https") && url.has_host(),
            "OPENHANDS_URL must look like http://127.0.0.1:8000"
        );
        ensure!(
            url.username().is_empty() && url.password().is_none(),
            "OPENHANDS_URL must not contain a password: put the key into OPENHANDS_API_KEY"
        );
        let servers = Servers::new(url, key)?;
        Ok(Self {
            profile: profile.filter(|name| !name.trim().is_empty()),
            roots,
            max_budget: Limits {
                steps: Some(options.max_iterations.into()),
                seconds: Some(options.max_seconds),
                cost,
            },
            mcp_servers,
            git_hosts,
            callbacks,
            runner: Arc::new(Runner::new(servers.clone(), options.max_parallel)),
            started: OnceLock::new(),
            share_tasks: options.share_tasks,
            owners: Mutex::default(),
            servers,
            changes: ChangeNotifier::new(),
        })
    }

    /// The timeout of calls.
    pub(crate) fn call_timeout(&self) -> Duration {
        let timeout = self.started.get().map(|(timeout, _)| *timeout);
        timeout.unwrap_or(DEFAULT_CALL_TIMEOUT)
    }

    /// Returns true if this server may run the verify commands of tasks, because it is not read-only.
    pub(crate) fn may_check(&self) -> bool {
        matches!(self.started.get(), Some((_, false)))
    }

    /// The owner of the tasks that this call creates; `None` if all see them.
    pub(crate) fn owner(&self, call: &Call) -> Option<Owner> {
        let principal = call.client().principal.as_deref();
        // Anybody may have a token without a name.
        let principal = principal.filter(|principal| principal.is_named && !self.share_tasks)?;
        Some(Owner(principal.name.to_string()))
    }

    /// The id of the caller's task with this idempotency key.
    pub(crate) fn key_id(&self, key: &str, call: &Call) -> TaskId {
        match self.owner(call) {
            Some(owner) => TaskId::from_key(&owner.key(key)),
            None => TaskId::from_key(key),
        }
    }

    /// The agent server of a task that the caller may see.
    ///
    /// # Errors
    /// The task does not exist, is another principal's, or its sandbox does not run.
    pub(crate) async fn task_server(&self, id: TaskId, call: &Call) -> ApiResult<AgentServer> {
        self.check_owner(id, call).await?;
        self.servers.for_task(id).await
    }

    /// Checks that the caller may see the task. Behind an app server all may.
    ///
    /// # Errors
    /// The task does not exist, or is another principal's.
    pub(crate) async fn check_owner(&self, id: TaskId, call: &Call) -> ApiResult<()> {
        if let Some(owner) = self.owner(call)
            && let Backend::Agent(server) = self.servers.backend().await?
        {
            let known = self.owners.lock().get(&id).cloned();
            let found = match known {
                Some(found) => found,
                None => {
                    let found = server.conversation(id).await?.tags;
                    let found = found.get(tag::OWNER).map(str::to_owned);
                    let mut owners = self.owners.lock();
                    if owners.len() >= MAX_OWNERS {
                        owners.clear();
                    }
                    owners.insert(id, found.clone());
                    found
                }
            };
            // It looks as if the task did not exist.
            if found.is_some_and(|found| found != owner.id()) {
                return Err(ApiFailure::Absent(id));
            }
        }
        Ok(())
    }
}
