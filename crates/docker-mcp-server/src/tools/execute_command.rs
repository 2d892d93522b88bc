//! `execute_command`: processes in containers, which end with their caller and with this program.
//!
//! The engine can start a process but not kill it; a closed connection leaves it running. So it is started through a
//! shell that first prints its process id, by which a second process kills it, with its process group. A program that
//! has left the group (`setsid`) goes on. In a container without a shell the command runs directly and cannot be killed.

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::prelude::*;
use crate::engine::{Engine, EngineError, RESUME, within};
use crate::json::{items, text};

const DEFAULT_SECONDS: u32 = 20;
/// The time for the end of a process that has to be killed.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(25);
/// Bytes of each output without `max_bytes`: an answer contains both, twice.
const DEFAULT_BYTES: u32 = 3_500;
/// Bytes of both in an answer without `max_bytes`.
const MAX_OUTPUT: usize = 14_800;

/// Run a command in a running container. Needs the operator's --allow-exec.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteCommand {
    /// Name or id.
    container: ContainerName,
    /// Runs a program with arguments; with `shell`, one line.
    command: Vec<String>,
    /// Runs the line by `sh -c`.
    #[serde(default)]
    shell: bool,
    /// Runs as this user or uid.
    user: Option<String>,
    /// Starts in this directory.
    working_dir: Option<String>,
    /// Adds environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Kills it after so long; default 20.
    timeout_seconds: Option<Bounded<1, 600>>,
    /// Shows so many bytes of each output, without the middle; default 3500.
    max_bytes: Option<Bounded<100, 200_000>>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Executed {
    container: String,
    exit_code: Option<i64>,
    stdout: String,
    stderr: String,
    /// Bytes in the middle of the outputs that were left out.
    omitted_bytes: Option<usize>,
    /// Did not end in time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    /// Still runs, since it could not be killed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    still_running: bool,
    /// Of the process that still runs.
    exec_id: Option<String>,
    note: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for ExecuteCommand {
    const NAME: &'static str = "execute_command";
    const EFFECT: Effect = Effect::Destructive;
    const BOUNDS_ITS_RESULT: bool = true;
    type Service = Docker;
    type Output = Executed;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Executed, ToolError> {
        docker.policy.permit_exec()?;
        docker.policy.permit_destructive()?;
        let argv = self.argv()?;
        let words = argv.iter().map(|word| ("command", *word));
        refuse_hidden(docker, pairs(&self.env).chain(words))?;
        let details = docker.mutable_container(&self.container).await?;
        let name = details.display_name().to_owned();
        let state = &details.state.status;
        if state != "running" {
            let next = match &**state {
                "paused" => RESUME,
                _ => "start_container starts it.",
            };
            let text = format!("`{name}` is {state}, so no command can run in it: {next}");
            return Err(ToolError::conflict(text));
        }
        let env = self.env.iter();
        let env: Vec<String> = env.map(|(key, value)| format!("{key}={value}")).collect();
        let lost = details.config.env.iter().chain(&env);
        let lost: Vec<String> = lost.filter(|one| is_lost(one)).cloned().collect();
        let mut config = config(&argv, &json!(self.user));
        config["WorkingDir"] = json!(self.working_dir);
        config["Env"] = env.into();
        let id = details.id.clone();
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit + CLEANUP_TIMEOUT);
        let room = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let redactor = docker.redactor_of(&details);
        let redactor = redactor.with_secrets(pairs(&self.env));
        let (run, _kill) = docker.programs.spawn(|stop| {
            let engine = docker.engine.clone();
            run_process(engine, id, (config, lost), (limit, room), stop)
        });
        let ended = tokio::select! {
            ended = run => ended.unwrap_or_else(|lost| Err(EngineError::unreadable(lost))),
            () = call.cancelled() => return Err(cancelled()),
        };
        match ended {
            Ok(end) => {
                let mut done = report(&redactor, name, end, seconds);
                if self.max_bytes.is_none() {
                    done.shorten(MAX_OUTPUT);
                }
                Ok(done)
            }
            Err(failure) => {
                let action = Action::on_container("run a command in", &name)
                    .with_required(ObjectKind::Container, self.container.as_str());
                // Every request serves the one change.
                Err(docker.explain(failure.of_change(), action).await)
            }
        }
    }
}

impl ExecuteCommand {
    fn argv(&self) -> Result<Vec<&str>, ToolError> {
        match (self.shell, self.command.as_slice()) {
            (_, []) => Err(ToolError::invalid_argument(
                "command is empty: give the program and its arguments.",
            )),
            (true, [line]) => Ok(vec!["sh", "-c", line]),
            (true, _) => Err(ToolError::invalid_argument(
                "With shell: true, command must be a list of one string: the line.",
            )),
            (false, words) => Ok(words.iter().map(String::as_str).collect()),
        }
    }
}

/// Returns true for a variable that a shell does not pass on to the programs that it starts, such as `spring.port=1`.
fn is_lost(assignment: &str) -> bool {
    let name = assignment.split('=').next().unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_word)
}

impl Executed {
    /// Leaves out more of the outputs, until they take at most `max` bytes of an answer.
    fn shorten(&mut self, max: usize) {
        let half = max / 2;
        let rest = max.saturating_sub(weight(&self.stdout)).max(half);
        let mut omitted = without_middle(&mut self.stderr, rest);
        let rest = max.saturating_sub(weight(&self.stderr));
        omitted += without_middle(&mut self.stdout, rest);
        self.omitted_bytes = positive(self.omitted_bytes.unwrap_or(0) + omitted);
    }
}

/// Leaves out the middle of a text that takes more than `max` bytes of an answer. Returns its bytes.
fn without_middle(text: &mut String, max: usize) -> usize {
    let (mut room, mut omitted) = (text.len(), 0);
    let mut shown = text.clone();
    while weight(&shown) > max {
        room = room * 7 / 8;
        let head = text.floor_char_boundary(room / 4);
        let tail = text.ceil_char_boundary(text.len() - (room - room / 4));
        omitted = tail - head;
        let (head, tail) = (&text[..head], &text[tail..]);
        shown = format!("{head}\n… {omitted} bytes left out …\n{tail}");
    }
    *text = shown;
    omitted
}

fn report(redactor: &Redactor, container: String, mut end: ProcessEnd, seconds: u32) -> Executed {
    let still_running = end.state.running;
    let exit_code = end.state.exit_code.filter(|_| !still_running);
    let note = if still_running {
        Some(format!(
            "It did not end within {seconds} s and cannot be killed from here, as the container \
                 has no shell: it still runs. Restarting the container ends it."
        ))
    } else if end.timed_out {
        Some(format!(
            "It did not end within {seconds} s and was killed, with its process group; programs that it put into \
             a session of their own may still run. A longer timeout_seconds may let it end by itself."
        ))
    } else {
        match exit_code {
            Some(126 | 127) if !end.has_shell => {
                Some("It was not started: the output is the engine's reason.".to_owned())
            }
            Some(126) => Some("The command is not executable.".to_owned()),
            Some(127) => Some("The command was not found in the container.".to_owned()),
            _ => None,
        }
    };
    let (stdout, omitted_stdout) = end.stdout.shown(redactor);
    let (stderr, omitted_stderr) = end.stderr.shown(redactor);
    Executed {
        container,
        exit_code,
        stdout,
        stderr,
        omitted_bytes: positive(omitted_stdout + omitted_stderr),
        timed_out: end.timed_out,
        still_running,
        exec_id: still_running.then_some(end.exec),
        note,
        redacted: redactor.hidden(),
    }
}

/// Prints its process id and becomes the command.
const PID_WRAPPER: [&str; 4] = ["/bin/sh", "-c", "echo $$; exec \"$@\"", "sh"];
/// Kills a process group and its leader.
const KILL_COMMAND: [&str; 4] = ["/bin/sh", "-c", "kill -9 -\"$1\"; kill -9 \"$1\"", "sh"];
/// The timeout of each step of a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type ExecOutput = BoxStream<'static, Result<LogOutput, bollard::errors::Error>>;

/// A process that has ended, or that could not be killed.
struct ProcessEnd {
    /// The id of its `exec`.
    exec: String,
    state: ExecState,
    stdout: Output,
    stderr: Output,
    timed_out: bool,
    /// A shell in the container started it; else the output may be the engine's error.
    has_shell: bool,
}

struct Process {
    engine: Engine,
    container: ContainerName,
    /// The request that creates it without a shell.
    config: Value,
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

/// Runs a command in a container that runs, and keeps `room` bytes of each output. Kills it after `limit`, and once
/// `stop` is cancelled. `lost` are the variables that the shell of [`PID_WRAPPER`] would lose.
async fn run_process(
    engine: Engine,
    container: ContainerName,
    (config, lost): (Value, Vec<String>),
    (limit, room): (Duration, usize),
    stop: CancellationToken,
) -> Result<ProcessEnd, EngineError> {
    let mut wrapped = config.clone();
    let env = (!lost.is_empty()).then(|| "env".to_owned());
    let before = PID_WRAPPER.map(str::to_owned).into_iter();
    let before = before.chain(env).chain(lost).map(Value::from);
    let argv = items(&config["Cmd"]).cloned();
    wrapped["Cmd"] = before.chain(argv).collect();
    let exec = create(&engine, &container, &wrapped).await?;
    let mut process = Process {
        reply: attach(&engine, &exec).await?,
        pid: PidLine::Incomplete(Vec::new()),
        engine,
        container,
        config,
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
    let state = process.state().await.map_err(|failure| match failure {
        // The command has run.
        EngineError::Unreachable(..) => EngineError::unreadable(failure),
        failure => failure,
    })?;
    Ok(ProcessEnd {
        state,
        stdout,
        stderr,
        timed_out,
        has_shell: matches!(process.pid, PidLine::Pid(_)),
        exec: process.exec,
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
            *stderr = Output::new(stderr.room);
            self.exec = create(&self.engine, &self.container, &self.config).await?;
            self.reply = attach(&self.engine, &self.exec).await?;
            self.pid = PidLine::Missing;
        }
    }

    /// Kills it. Returns false if it had ended.
    async fn kill(&mut self) -> bool {
        if !self.state().await.is_ok_and(|state| state.running) {
            return false;
        }
        if matches!(self.pid, PidLine::Missing) {
            // Nothing can end it.
            return true;
        }
        // Errors are ignored: the engine's state shows the result.
        let _ = timeout(KILL_TIMEOUT, self.kill_group()).await;
        let ended = async {
            while !self.state().await.is_ok_and(|state| !state.running) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let _ = timeout(KILL_TIMEOUT, ended).await;
        true
    }

    async fn kill_group(&mut self) -> Result<(), EngineError> {
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
        let pid = pid.to_string();
        let argv = [&KILL_COMMAND[..], &[&pid]].concat();
        let kill = config(&argv, &self.config["User"]);
        let killer = create(&self.engine, &self.container, &kill).await?;
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

/// The request that creates a process.
fn config(argv: &[&str], user: &Value) -> Value {
    json!({"AttachStdout": true, "AttachStderr": true, "Cmd": argv, "User": user})
}

/// Creates a process, and returns the id of its `exec`.
async fn create(
    engine: &Engine,
    container: &ContainerName,
    config: &Value,
) -> Result<String, EngineError> {
    let path = Path::container(container, "/exec");
    let created = engine.try_post(path, Some(config), Duration::ZERO).await?;
    Ok(text(&created["Id"]).to_owned())
}

/// Starts a process that was created, and returns its output.
async fn attach(engine: &Engine, exec: &str) -> Result<ExecOutput, EngineError> {
    let start = async { Ok(engine.streams.start_exec(exec, None).await?) };
    match within(engine.timeout(), start).await? {
        StartExecResults::Attached { output, .. } => Ok(output),
        StartExecResults::Detached => Err(EngineError::unreadable("a command without its output")),
    }
}

/// The beginning and the end of a stream.
#[derive(Debug, Default)]
struct Output {
    /// Bytes that are shown.
    room: usize,
    bytes: Vec<u8>,
    /// Bytes in the middle that were not kept.
    omitted: usize,
}

impl Output {
    /// Shows `room` bytes, most of them at the end, where programs report errors.
    fn new(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * (self.room + 2 * SECRET_MARGIN_BYTES) {
            self.shrink();
        }
    }

    /// Drops the middle, but for a margin on both sides of what is shown.
    fn shrink(&mut self) {
        let over = self.bytes.len();
        let over = over.saturating_sub(self.room + 2 * SECRET_MARGIN_BYTES);
        let head = self.kept_head().min(self.bytes.len());
        self.bytes.drain(head..head + over);
        self.omitted += over;
    }

    fn kept_head(&self) -> usize {
        self.room / 4 + SECRET_MARGIN_BYTES
    }

    /// The redacted output, with a mark for omitted bytes, and their number. Only then it is cut.
    fn shown(&mut self, redactor: &Redactor) -> (String, usize) {
        self.shrink();
        let text = |bytes: &[u8]| redactor.text(&String::from_utf8_lossy(bytes));
        let (text, gap) = match self.omitted {
            0 => (text(&self.bytes), None),
            _ => {
                let (head, tail) = self.bytes.split_at(self.kept_head());
                let (mut head, tail) = (text(head), text(tail));
                head.truncate(last_line(&head));
                let gap = head.len();
                (head + &tail[first_line(&tail)..], Some(gap))
            }
        };
        if gap.is_none() && text.len() <= self.room {
            return (text, 0);
        }
        let head = self.room / 4;
        let tail = text.len().saturating_sub(self.room - head);
        let gap = gap.unwrap_or(head);
        let (head, tail) = (head.min(gap), tail.max(gap));
        let (head, tail) = (
            text.floor_char_boundary(head),
            text.ceil_char_boundary(tail),
        );
        let omitted = self.omitted + tail - head;
        let (head, tail) = (&text[..head], &text[tail..]);
        (
            format!("{head}\n… {omitted} bytes left out …\n{tail}"),
            omitted,
        )
    }
}

/// Where a text begins whose first bytes may be a part of a secret: at a line, or in a very long line after a margin.
fn first_line(text: &str) -> usize {
    let margin = text.ceil_char_boundary(SECRET_MARGIN_BYTES.min(text.len() / 2));
    text[..margin].find('\n').map_or(margin, |at| at + 1)
}

/// Where a text ends whose last bytes may be a part of a secret.
fn last_line(text: &str) -> usize {
    let margin = SECRET_MARGIN_BYTES.min(text.len() / 2);
    let margin = text.floor_char_boundary(text.len() - margin);
    text[margin..]
        .rfind('\n')
        .map_or(margin, |at| margin + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_fit_into_an_answer_whatever_their_characters() {
        for (stdout, stderr) in [("y\n", ""), ("", "\u{1}"), ("\"", "\\"), ("a", "é")] {
            let [stdout, stderr] = [stdout, stderr].map(|part| part.repeat(3_500));
            let mut done = Executed {
                stdout: format!("first{stdout}last"),
                stderr: format!("first{stderr}last"),
                ..Executed::default()
            };
            done.shorten(MAX_OUTPUT);
            let bytes = weight(&done.stdout) + weight(&done.stderr);
            assert!((MAX_OUTPUT / 3..=MAX_OUTPUT).contains(&bytes), "{bytes}");
            assert!(done.omitted_bytes.is_some());
            for text in [done.stdout, done.stderr] {
                assert!(
                    text.starts_with("first") && text.ends_with("last"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn outputs_are_cut_where_no_part_of_a_secret_is_shown() {
        let secrets = [("SIGNING_SECRET", "Zx9qW7pL0secretvalue")];
        let redactor = Redactor::new(true).with_secrets(secrets);
        for line in [
            "DB_PASSWORD=Zx9qW7pL0secretvalue\n",
            "Zx9qW7pL0secretvalue ",
        ] {
            for (room, count) in [
                (3_500, 300),
                (3_500, 30_000),
                (101, 9_000),
                (200_000, 90_000),
            ] {
                let mut output = Output::new(room);
                output.push(b"first\n");
                for _ in 0..count {
                    output.push(line.as_bytes());
                }
                output.push(b"last\n");
                let (shown, omitted) = output.shown(&redactor);
                let is_shown = ["Zx9", "pL0", "value"]
                    .iter()
                    .any(|part| shown.contains(part));
                assert!(!is_shown, "{shown}");
                assert!(shown.starts_with("first\n") && shown.ends_with("last\n"));
                assert!(shown.len() < room + 60);
                assert!(
                    (omitted > 0) == shown.contains("bytes left out"),
                    "{omitted}"
                );
            }
        }
    }
}
