//! Processes in containers, none of which outlives its caller or this program.
//!
//! The engine can start a process but not kill it; a closed connection leaves it running. A second
//! process kills it, with its whole session.

mod output;
mod process;

pub(crate) use process::{Process, ProcessEnd};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::BoxStream;
use serde_json::json;
use tokio::runtime::Handle;

use crate::engine::client::{Engine, within};
use crate::engine::error::EngineError;
use crate::engine::name::ContainerName;
use crate::engine::path::Path;

/// Kills a session and its leader.
const KILL_COMMAND: [&str; 4] = ["/bin/sh", "-c", "kill -9 -\"$1\"; kill -9 \"$1\"", "sh"];
/// The timeout of each step of a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The output of a process.
type ExecOutput = BoxStream<'static, Result<LogOutput, bollard::errors::Error>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// A name or an id; by default the container's.
    pub(crate) user: String,
    /// By default the container's.
    pub(crate) working_dir: String,
    /// `KEY=value`.
    pub(crate) env: Vec<String>,
}

/// A process in a container, which can be killed.
#[derive(Clone)]
struct KillTarget {
    engine: Engine,
    container: ContainerName,
    /// The user that it runs as.
    user: String,
    pid: u32,
}

/// The processes that run now, by the id of their `exec`.
#[derive(Clone, Default)]
pub(crate) struct RunningProcesses(Arc<Mutex<BTreeMap<String, KillTarget>>>);

/// A process that is killed when this is dropped, unless it has ended.
struct RunningProcess {
    exec: String,
    all: RunningProcesses,
}

impl RunningProcesses {
    fn insert(&self, exec: &str, target: KillTarget) -> RunningProcess {
        self.with(|all| all.insert(exec.to_owned(), target));
        RunningProcess {
            exec: exec.to_owned(),
            all: self.clone(),
        }
    }

    /// Kills all of them.
    pub(crate) async fn kill_all(&self) {
        let all: Vec<String> = self.with(|all| all.keys().cloned().collect());
        join_all(all.iter().map(|exec| self.kill(exec))).await;
    }

    async fn kill(&self, exec: &str) {
        if let Some(target) = self.with(|all| all.get(exec).cloned()) {
            // Errors are ignored: the engine's state shows the result.
            let _ = tokio::time::timeout(KILL_TIMEOUT, target.kill()).await;
            self.with(|all| all.remove(exec));
        }
    }

    fn with<T>(&self, use_all: impl FnOnce(&mut BTreeMap<String, KillTarget>) -> T) -> T {
        use_all(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunningProcess {
    async fn kill(&self) {
        self.all.kill(&self.exec).await;
    }

    /// Forgets the process, which has ended.
    fn ended(&self) {
        self.all.with(|all| all.remove(&self.exec));
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let (all, exec) = (self.all.clone(), std::mem::take(&mut self.exec));
        let runs = all.with(|all| all.contains_key(&exec));
        if runs && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { all.kill(&exec).await });
        }
    }
}

impl KillTarget {
    async fn kill(&self) -> Result<(), EngineError> {
        let mut argv = KILL_COMMAND.map(str::to_owned).to_vec();
        argv.push(self.pid.to_string());
        let command = Command {
            argv,
            user: self.user.clone(),
            ..Command::default()
        };
        let killer = create(&self.engine, &self.container, &command).await?;
        let mut output = attach(&self.engine, &killer).await?;
        while output.next().await.is_some() {}
        Ok(())
    }
}

/// Creates a process that runs `command`, and returns the id of its `exec`.
async fn create(
    engine: &Engine,
    container: &ContainerName,
    command: &Command,
) -> Result<String, EngineError> {
    let config = json!({
        "AttachStdout": true,
        "AttachStderr": true,
        "Cmd": command.argv,
        "User": command.user,
        "WorkingDir": command.working_dir,
        "Env": command.env,
    });
    let path = Path::container(container, "/exec");
    let created = engine.try_post(path, Some(&config), Duration::ZERO).await?;
    Ok(created["Id"].as_str().unwrap_or_default().to_owned())
}

/// Starts a process that was created, and returns its output.
async fn attach(engine: &Engine, exec: &str) -> Result<ExecOutput, EngineError> {
    let start = async { Ok(engine.streams.start_exec(exec, None).await?) };
    match within(engine.timeout(), start).await? {
        StartExecResults::Attached { output, .. } => Ok(output),
        StartExecResults::Detached => Err(EngineError::unreadable("a command without its output")),
    }
}
