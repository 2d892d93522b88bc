//! A process in a container: started, read and killed.
//!
//! It is started through a shell that first prints its process id, by which it can be killed. In a
//! container without a shell the command runs directly and cannot be killed.

use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use serde::Deserialize;

use super::output::Output;
use super::{
    Command, ExecOutput, KILL_TIMEOUT, KillTarget, RunningProcess, RunningProcesses, attach, create,
};
use crate::engine::client::Engine;
use crate::engine::error::EngineError;
use crate::engine::name::{ContainerName, ObjectName};
use crate::engine::path::Path;

/// Prints its process id and becomes the command.
const PID_WRAPPER: [&str; 4] = ["/bin/sh", "-c", "echo $$; exec \"$@\"", "sh"];
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process that was started.
pub(crate) struct Process<'a> {
    engine: &'a Engine,
    all: &'a RunningProcesses,
    container: &'a ContainerName,
    command: &'a Command,
    exec: String,
    reply: ExecOutput,
    pid: PidLine,
    /// Once its process id is known.
    running: Option<RunningProcess>,
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
}

impl<'a> Process<'a> {
    /// Starts `command` in a container that runs, as one of the processes of `all`.
    pub(crate) async fn start(
        engine: &'a Engine,
        all: &'a RunningProcesses,
        container: &'a ContainerName,
        command: &'a Command,
    ) -> Result<Self, EngineError> {
        let argv = PID_WRAPPER.map(str::to_owned).into_iter();
        let wrapped = Command {
            argv: argv.chain(command.argv.iter().cloned()).collect(),
            ..command.clone()
        };
        let exec = create(engine, container, &wrapped).await?;
        let reply = attach(engine, &exec).await?;
        Ok(Self {
            engine,
            all,
            container,
            command,
            exec,
            reply,
            pid: PidLine::Incomplete(Vec::new()),
            running: None,
        })
    }

    /// Reads its output until it exits, and keeps `room` bytes of each stream. Kills it after `limit`.
    pub(crate) async fn end(
        &mut self,
        limit: Duration,
        room: usize,
    ) -> Result<ProcessEnd, EngineError> {
        let (mut stdout, mut stderr) = (Output::new(room), Output::new(room));
        let read = self.read(&mut stdout, &mut stderr);
        let read = tokio::time::timeout(limit, read).await;
        let in_time = read.is_ok();
        read.unwrap_or(Ok(()))?;
        let mut state = self.state().await?;
        let timed_out = !in_time && state.running;
        let still_running = timed_out && !self.kill().await;
        if timed_out && !still_running {
            state = self.state().await?;
        }
        if let Some(running) = self.running.as_ref().filter(|_| !still_running) {
            running.ended();
        }
        Ok(ProcessEnd {
            exec_id: self.exec.clone(),
            exit_code: state.exit_code.filter(|_| !still_running),
            stdout,
            stderr,
            timed_out,
            still_running,
        })
    }

    /// Kills it. Returns true if it has exited.
    pub(crate) async fn kill(&mut self) -> bool {
        // After an early cancellation the process id may not have arrived yet.
        let _ = tokio::time::timeout(KILL_TIMEOUT, self.read_pid()).await;
        if let Some(running) = &self.running {
            running.kill().await;
        }
        let ended = async {
            while !self.state().await.is_ok_and(|state| !state.running) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(KILL_TIMEOUT, ended).await.is_ok()
    }

    async fn read(&mut self, stdout: &mut Output, stderr: &mut Output) -> Result<(), EngineError> {
        loop {
            while let Some(chunk) = self.reply.next().await {
                match chunk? {
                    LogOutput::StdErr { message } => stderr.push(&message),
                    message => stdout.push(self.take_pid(message.as_ref())),
                }
            }
            if !self.has_no_shell().await? {
                return Ok(());
            }
            // The command has not run yet, so this does not run it twice.
            stdout.clear();
            stderr.clear();
            self.exec = create(self.engine, self.container, self.command).await?;
            self.reply = attach(self.engine, &self.exec).await?;
            self.pid = PidLine::Missing;
        }
    }

    /// Takes the line with its process id from `bytes` and returns the rest, which is output.
    fn take_pid<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let rest = self.pid.take(bytes);
        if let (PidLine::Pid(pid), None) = (&self.pid, &self.running) {
            let target = KillTarget {
                engine: self.engine.clone(),
                container: self.container.clone(),
                user: self.command.user.clone(),
                pid: *pid,
            };
            self.running = Some(self.all.insert(&self.exec, target));
        }
        rest
    }

    /// Reads up to its process id.
    async fn read_pid(&mut self) {
        while let PidLine::Incomplete(_) = self.pid
            && let Some(Ok(chunk)) = self.reply.next().await
        {
            if !matches!(chunk, LogOutput::StdErr { .. }) {
                self.take_pid(chunk.as_ref());
            }
        }
    }

    /// Whether the shell that prints the process id could not be run.
    async fn has_no_shell(&mut self) -> Result<bool, EngineError> {
        let PidLine::Incomplete(error) = &self.pid else {
            return Ok(false);
        };
        let error = String::from_utf8_lossy(error).into_owned();
        let missing = error.contains("exec failed") || error.contains("no such file");
        let code = self.state().await?.exit_code;
        Ok(matches!(code, Some(126 | 127)) && (missing || error.is_empty()))
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
