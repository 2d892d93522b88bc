//! A process in a container, and its end.
//!
//! The engine can start a process, but not end it: whoever closes the connection leaves it running.
//! So it is started through a shell that says its process id first, and a second process kills that
//! one, with all that belongs to its session. A container without a shell runs the command as it
//! is; there is nothing to kill it with.

use std::time::Duration;

use bollard::errors::Error;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::output::Output;
use crate::engine::{Body, Engine, Failure, Path};
use crate::log::Frames;
use crate::name::{ContainerName, ObjectName};

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
    exec: ObjectName,
    reply: BoxStream<'static, Result<Bytes, Error>>,
    frames: Frames,
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct State {
    running: bool,
    exit_code: Option<i64>,
}

impl<'a> Process<'a> {
    /// Starts `command` in a container that runs.
    pub(super) async fn start(
        engine: &'a Engine,
        container: &'a ContainerName,
        command: &'a Command,
    ) -> Result<Self, Failure> {
        let argv = ANNOUNCE.iter().map(|word| (*word).to_owned());
        let argv = argv.chain(command.argv.iter().cloned()).collect();
        let exec = create(engine, container, command, argv).await?;
        let reply = attach(engine, &exec)?;
        Ok(Self {
            engine,
            container,
            command,
            exec,
            reply,
            frames: Frames::new(false),
            announced: Announced::Awaited(Vec::new()),
        })
    }

    /// Reads its output until it ends, and keeps `room` bytes of each stream; kills it when it takes
    /// longer than `limit`.
    pub(super) async fn end(&mut self, limit: Duration, room: usize) -> Result<End, Failure> {
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
            exec_id: self.exec.to_string(),
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
                && let Ok(mut reply) = attach(self.engine, &killer)
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

    async fn read(&mut self, stdout: &mut Output, stderr: &mut Output) -> Result<(), Failure> {
        loop {
            while let Some(piece) = self.reply.next().await {
                let announced = &mut self.announced;
                self.frames.push(&piece?, |part| match part.source {
                    2 => stderr.push(part.bytes),
                    _ => stdout.push(announced.take(part.bytes)),
                })?;
            }
            if !self.has_no_shell().await? {
                return Ok(());
            }
            // Nothing was run yet, so this does not run it twice.
            stdout.clear();
            stderr.clear();
            self.frames = Frames::new(false);
            let argv = self.command.argv.clone();
            self.exec = create(self.engine, self.container, self.command, argv).await?;
            self.reply = attach(self.engine, &self.exec)?;
            self.announced = Announced::Never;
        }
    }

    /// Waits for its process id.
    async fn hear(&mut self) {
        while let Announced::Awaited(_) = self.announced
            && let Some(Ok(piece)) = self.reply.next().await
        {
            let announced = &mut self.announced;
            let heard = self.frames.push(&piece, |part| {
                if part.source != 2 {
                    announced.take(part.bytes);
                }
            });
            if heard.is_err() {
                return;
            }
        }
    }

    /// Whether the shell that announces the process could not be run itself.
    async fn has_no_shell(&mut self) -> Result<bool, Failure> {
        let Announced::Awaited(said) = &self.announced else {
            return Ok(false);
        };
        let said = String::from_utf8_lossy(said).into_owned();
        let missing = said.contains("exec failed") || said.contains("no such file");
        let code = self.state().await?.exit_code;
        Ok(matches!(code, Some(126 | 127)) && (missing || said.is_empty()))
    }

    async fn state(&mut self) -> Result<State, Failure> {
        let path = Path::to("/exec").id(&self.exec).then("/json");
        self.engine.read_json(path).await
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
) -> Result<ObjectName, Failure> {
    let body = json!({
        "AttachStdout": true,
        "AttachStderr": true,
        "Cmd": argv,
        "User": command.user,
        "WorkingDir": command.working_dir,
        "Env": command.env,
    });
    let path = Path::to("/containers").id(container).then("/exec");
    let receipt = engine.change(Method::POST, path, Body::json(&body)).await?;
    ObjectName::new(receipt["Id"].as_str().unwrap_or_default())
        .map_err(|error| Failure::Unreadable(error.to_string().into()))
}

fn attach(
    engine: &Engine,
    exec: &ObjectName,
) -> Result<BoxStream<'static, Result<Bytes, Error>>, Failure> {
    let path = Path::to("/exec").id(exec).then("/start");
    let body = Body::json(&json!({"Detach": false, "Tty": false}));
    Ok(engine.follow(Method::POST, path, body)?.boxed())
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
