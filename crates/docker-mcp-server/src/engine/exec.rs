//! Processes in containers, none of which outlives its caller or this program.
//!
//! The engine can start a process but not kill it; a closed connection leaves it running. So it is started through a
//! shell that first prints its process id, by which a second process kills it, with its whole session. In a container
//! without a shell the command runs directly and cannot be killed.

mod output;

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::output::Output;
use crate::engine::client::{Engine, within};
use crate::engine::error::EngineError;
use crate::engine::name::{ContainerName, ObjectName};
use crate::engine::path::Path;

/// Prints its process id and becomes the command.
const PID_WRAPPER: [&str; 4] = ["/bin/sh", "-c", "echo $$; exec \"$@\"", "sh"];
/// Kills a session and its leader.
const KILL_COMMAND: [&str; 4] = ["/bin/sh", "-c", "kill -9 -\"$1\"; kill -9 \"$1\"", "sh"];
/// The timeout of each step of a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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

pub(crate) struct ProcessEnd {
    /// The id of its `exec`.
    pub(crate) exec_id: String,
    /// Of a process that has ended.
    pub(crate) exit_code: Option<i64>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    /// It did not end in time.
    pub(crate) timed_out: bool,
    /// It could not be killed.
    pub(crate) still_running: bool,
    /// A shell in the container started it; else the output may be the engine's error.
    pub(crate) has_shell: bool,
}

/// A process that was started.
struct Process {
    engine: Engine,
    container: ContainerName,
    command: Command,
    exec: String,
    reply: ExecOutput,
    pid: PidLine,
}

/// The engine's state of a process.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ExecState {
    running: bool,
    exit_code: Option<i64>,
}

/// The line with the process id, which comes before the output.
enum PidLine {
    /// The bytes so far.
    Incomplete(Vec<u8>),
    Pid(u32),
    /// There is no shell to print it.
    Missing,
}

/// Runs `command` in a container that runs, and keeps `room` bytes of each output. Kills it after `limit`, and once
/// `stop` is cancelled.
pub(crate) async fn run(
    engine: Engine,
    container: ContainerName,
    command: Command,
    (limit, room): (Duration, usize),
    stop: CancellationToken,
) -> Result<ProcessEnd, EngineError> {
    let argv = PID_WRAPPER.map(str::to_owned).into_iter();
    let wrapped = Command {
        argv: argv.chain(command.argv.iter().cloned()).collect(),
        ..command.clone()
    };
    let exec = create(&engine, &container, &wrapped).await?;
    let mut process = Process {
        reply: attach(&engine, &exec).await?,
        pid: PidLine::Incomplete(Vec::new()),
        engine,
        container,
        command,
        exec,
    };
    let (mut stdout, mut stderr) = (Output::new(room), Output::new(room));
    let read = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        read = timeout(limit, process.read(&mut stdout, &mut stderr)) => read.ok(),
    };
    let timed_out = !matches!(read, Some(Ok(()))) && process.kill().await;
    read.unwrap_or(Ok(()))?;
    let state = process.state().await?;
    Ok(ProcessEnd {
        exit_code: state.exit_code.filter(|_| !state.running),
        stdout,
        stderr,
        timed_out,
        still_running: state.running,
        has_shell: matches!(process.pid, PidLine::Pid(_)),
        exec_id: process.exec,
    })
}

impl Process {
    /// Reads up to its end.
    async fn read(&mut self, stdout: &mut Output, stderr: &mut Output) -> Result<(), EngineError> {
        loop {
            while let Some(chunk) = self.reply.next().await {
                match chunk? {
                    LogOutput::StdErr { message } => stderr.push(&message),
                    message => stdout.push(self.pid.take(message.as_ref())),
                }
            }
            if !matches!(self.pid, PidLine::Incomplete(_)) {
                return Ok(());
            }
            // The shell could not be run, nor the command, so this does not run it twice.
            stderr.clear();
            self.exec = create(&self.engine, &self.container, &self.command).await?;
            self.reply = attach(&self.engine, &self.exec).await?;
            self.pid = PidLine::Missing;
        }
    }

    /// Kills it. Returns false if it had ended.
    async fn kill(&mut self) -> bool {
        if !self.state().await.is_ok_and(|state| state.running) {
            return false;
        }
        // Errors are ignored: the engine's state shows the result.
        let _ = timeout(KILL_TIMEOUT, self.kill_session()).await;
        let ended = async {
            while !self.state().await.is_ok_and(|state| !state.running) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let _ = timeout(KILL_TIMEOUT, ended).await;
        true
    }

    async fn kill_session(&mut self) -> Result<(), EngineError> {
        // After an early cancellation the process id may not have arrived yet.
        while let PidLine::Incomplete(_) = self.pid
            && let Some(chunk) = self.reply.next().await
        {
            if let message @ (LogOutput::StdOut { .. } | LogOutput::Console { .. }) = chunk? {
                self.pid.take(message.as_ref());
            }
        }
        let PidLine::Pid(pid) = self.pid else {
            return Ok(());
        };
        let argv = KILL_COMMAND.map(str::to_owned).into_iter();
        let command = Command {
            argv: argv.chain([pid.to_string()]).collect(),
            user: self.command.user.clone(),
            ..Command::default()
        };
        let killer = create(&self.engine, &self.container, &command).await?;
        let mut output = attach(&self.engine, &killer).await?;
        while output.next().await.is_some() {}
        Ok(())
    }

    async fn state(&mut self) -> Result<ExecState, EngineError> {
        let exec = ObjectName::new(&self.exec);
        let exec = exec.map_err(|error| EngineError::unreadable(error.to_string()))?;
        let path = Path::to("/exec").id(&exec).then("/json");
        self.engine.try_get(path).await
    }
}

impl PidLine {
    /// Takes the line from `bytes` and returns the rest, which is output.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Self::Incomplete(line) = self else {
            return bytes;
        };
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            line.extend_from_slice(bytes);
            return &[];
        };
        line.extend_from_slice(&bytes[..end]);
        match String::from_utf8_lossy(line).trim().parse() {
            Ok(pid) => {
                *self = Self::Pid(pid);
                &bytes[end + 1..]
            }
            // The engine's error about a missing shell.
            Err(_) => {
                line.push(b'\n');
                &[]
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_id_is_not_part_of_the_output() {
        for chunks in ["17\nhello", "1|7\n|hello", "17|\nhel|lo"] {
            let mut pid = PidLine::Incomplete(Vec::new());
            let mut output = Vec::new();
            for chunk in chunks.split('|') {
                output.extend_from_slice(pid.take(chunk.as_bytes()));
            }
            assert!(matches!(pid, PidLine::Pid(17)));
            assert_eq!(output, b"hello");
        }
    }
}
