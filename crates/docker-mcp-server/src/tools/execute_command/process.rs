//! A process in a container, and its end.
//!
//! The engine can start a process, but not end it: whoever closes the connection leaves it running.
//! So it is started through a shell that says its process id first, and a second process kills that
//! one, with all that belongs to its session. A container without a shell runs the command as it
//! is; there is nothing to kill it with.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use super::output::Output;
use crate::engine::{Engine, EngineError, within};
use crate::name::ContainerName;

/// Says who it is and becomes the command.
const ANNOUNCE: [&str; 4] = ["/bin/sh", "-c", "echo $$; exec \"$@\"", "sh"];
/// Kills a session and who leads it.
const KILL: [&str; 4] = ["/bin/sh", "-c", "kill -9 -\"$1\"; kill -9 \"$1\"", "sh"];
/// How long the engine may take to notice that a process was killed.
const NOTICE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// What is run.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    pub(super) user: String,
    pub(super) working_dir: String,
    /// `KEY=value`.
    pub(super) env: Vec<String>,
}

/// A process that was started.
pub(super) struct Process<'a> {
    engine: &'a Engine,
    container: &'a ContainerName,
    command: &'a Command,
    exec: String,
    reply: BoxStream<'static, Result<LogOutput, Error>>,
    announced: Announced,
}

/// The process id, which comes before the output.
enum Announced {
    /// What came of it so far.
    Awaited(Vec<u8>),
    Pid(u32),
    /// There is no shell to say it.
    Never,
}

/// How it ended.
pub(super) struct End {
    pub(super) exec_id: String,
    pub(super) exit_code: Option<i64>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) timed_out: bool,
    pub(super) still_running: bool,
}

struct ExecState {
    running: bool,
    exit_code: Option<i64>,
}

impl<'a> Process<'a> {
    /// Starts `command` in a container that runs.
    pub(super) async fn start(
        engine: &'a Engine,
        container: &'a ContainerName,
        command: &'a Command,
    ) -> Result<Self, EngineError> {
        let argv = ANNOUNCE.iter().map(|word| (*word).to_owned());
        let argv = argv.chain(command.argv.iter().cloned()).collect();
        let exec = create(engine, container, command, argv).await?;
        let reply = attach(engine, &exec).await?;
        Ok(Self {
            engine,
            container,
            command,
            exec,
            reply,
            announced: Announced::Awaited(Vec::new()),
        })
    }

    /// Reads its output until it ends, and keeps `room` bytes of each stream; kills it when it takes
    /// longer than `limit`.
    pub(super) async fn end(&mut self, limit: Duration, room: usize) -> Result<End, EngineError> {
        let (mut stdout, mut stderr) = (Output::new(room), Output::new(room));
        let read = self.read(&mut stdout, &mut stderr);
        let mut timed_out = match tokio::time::timeout(limit, read).await {
            Ok(done) => {
                done?;
                false
            }
            Err(_) => true,
        };
        let mut state = self.state().await?;
        if timed_out && !state.running {
            timed_out = false;
        }
        let still_running = timed_out && !self.kill().await;
        if timed_out && !still_running {
            state = self.state().await?;
        }
        Ok(End {
            exec_id: self.exec.clone(),
            exit_code: state.exit_code.filter(|_| !still_running),
            stdout,
            stderr,
            timed_out,
            still_running,
        })
    }

    /// Kills it, and says whether it has ended.
    pub(super) async fn kill(&mut self) -> bool {
        // One that was given up at once may not have said yet who it is.
        let _ = tokio::time::timeout(NOTICE, self.hear()).await;
        if let Announced::Pid(pid) = self.announced {
            let argv = KILL.iter().map(|word| (*word).to_owned());
            let argv = argv.chain([pid.to_string()]).collect();
            // Whether it worked is asked of the engine.
            if let Ok(killer) = create(self.engine, self.container, self.command, argv).await
                && let Ok(mut reply) = attach(self.engine, &killer).await
            {
                let run = async { while reply.next().await.is_some() {} };
                let _ = tokio::time::timeout(NOTICE, run).await;
            }
        }
        let ended = async {
            while !self.state().await.is_ok_and(|state| !state.running) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(NOTICE, ended).await.is_ok()
    }

    async fn read(&mut self, stdout: &mut Output, stderr: &mut Output) -> Result<(), EngineError> {
        loop {
            while let Some(piece) = self.reply.next().await {
                match piece? {
                    LogOutput::StdErr { message } => stderr.push(&message),
                    message => stdout.push(self.announced.take(message.as_ref())),
                }
            }
            if !self.has_no_shell().await? {
                return Ok(());
            }
            // Nothing was run yet, so this does not run it twice.
            stdout.clear();
            stderr.clear();
            let argv = self.command.argv.clone();
            self.exec = create(self.engine, self.container, self.command, argv).await?;
            self.reply = attach(self.engine, &self.exec).await?;
            self.announced = Announced::Never;
        }
    }

    /// Waits for its process id.
    async fn hear(&mut self) {
        while let Announced::Awaited(_) = self.announced
            && let Some(Ok(piece)) = self.reply.next().await
        {
            if !matches!(piece, LogOutput::StdErr { .. }) {
                self.announced.take(piece.as_ref());
            }
        }
    }

    /// Whether the shell that announces the process could not be run itself.
    async fn has_no_shell(&mut self) -> Result<bool, EngineError> {
        let Announced::Awaited(said) = &self.announced else {
            return Ok(false);
        };
        let said = String::from_utf8_lossy(said).into_owned();
        let missing = said.contains("exec failed") || said.contains("no such file");
        let code = self.state().await?.exit_code;
        Ok(matches!(code, Some(126 | 127)) && (missing || said.is_empty()))
    }

    async fn state(&mut self) -> Result<ExecState, EngineError> {
        let exec = self
            .engine
            .try_call(|engine| async move { engine.inspect_exec(&self.exec).await });
        let exec = exec.await?;
        Ok(ExecState {
            running: exec.running.unwrap_or_default(),
            exit_code: exec.exit_code,
        })
    }
}

impl Announced {
    /// What of `bytes` is output.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Self::Awaited(line) = self else {
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
            // The engine's own words about a shell that is missing.
            Err(_) => {
                line.push(b'\n');
                &[]
            }
        }
    }
}

async fn create(
    engine: &Engine,
    container: &ContainerName,
    command: &Command,
    argv: Vec<String>,
) -> Result<String, EngineError> {
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(argv),
        user: Some(command.user.clone()),
        working_dir: Some(command.working_dir.clone()),
        env: Some(command.env.clone()),
        ..ExecConfig::default()
    };
    let container = container.to_string();
    let create =
        |engine: bollard::Docker| async move { engine.create_exec(&container, config).await };
    Ok(engine.try_change(Duration::ZERO, create).await?.id)
}

async fn attach(
    engine: &Engine,
    exec: &str,
) -> Result<BoxStream<'static, Result<LogOutput, Error>>, EngineError> {
    let start = async { Ok(engine.streams().start_exec(exec, None).await?) };
    match within(engine.timeout(), start).await? {
        StartExecResults::Attached { output, .. } => Ok(output),
        StartExecResults::Detached => Err(EngineError::unreadable("a command without its output")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_id_is_no_output() {
        for pieces in [
            vec!["17\nhello"],
            vec!["1", "7\n", "hello"],
            vec!["17", "\nhel", "lo"],
        ] {
            let mut announced = Announced::Awaited(Vec::new());
            let mut output = Vec::new();
            for piece in pieces {
                output.extend_from_slice(announced.take(piece.as_bytes()));
            }
            assert!(matches!(announced, Announced::Pid(17)));
            assert_eq!(output, b"hello");
        }
    }
}
