//! `execute_command`.

use super::prelude::*;
use crate::engine::EngineError;
use crate::engine::exec::{self, Command, ProcessEnd};

/// Seconds without `timeout_seconds`.
const DEFAULT_SECONDS: u32 = 20;
/// The time for the end of a process that has to be killed.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);
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
    /// Program and arguments; with `shell` one line.
    command: Vec<String>,
    /// Run the line by `sh -c`.
    #[serde(default)]
    shell: bool,
    /// User or uid to run as.
    user: Option<String>,
    /// Directory to start in.
    working_dir: Option<String>,
    /// Further environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Until it is killed (default 20); the call waits as long.
    timeout_seconds: Option<Bounded<1, 600>>,
    /// Bytes of each output that are shown (default 3500); the middle is left out.
    max_bytes: Option<Bounded<100, 200_000>>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
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
        let command = self.command()?;
        let details = docker.mutable_container(&self.container).await?;
        let name = details.display_name().to_owned();
        let state = &details.state.status;
        if state != "running" {
            let text = format!(
                "`{name}` is {state}, so no command can run in it: start_container starts it."
            );
            return Err(conflict(text));
        }
        let id = details.container_id()?;
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit + CLEANUP_TIMEOUT);
        let room = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let secrets = self.env.iter();
        let secrets = secrets.map(|(name, value)| (name.as_str(), value.as_str()));
        let redactor = docker.redactor_of(&details).with_secrets(secrets);
        let (run, _kill) = docker
            .programs
            .spawn(|stop| exec::run(docker.engine.clone(), id, command, (limit, room), stop));
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
                Err(docker.explain_action(failure, action).await)
            }
        }
    }
}

impl ExecuteCommand {
    fn command(&self) -> Result<Command, ToolError> {
        let argv = match (self.shell, self.command.as_slice()) {
            (_, []) => {
                return Err(ToolError::invalid_argument(
                    "command is empty: give the program and its arguments.",
                ));
            }
            (true, [line]) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            (true, _) => {
                return Err(ToolError::invalid_argument(
                    "With shell: true, command must be a list of one string: the line.",
                ));
            }
            (false, words) => words.to_vec(),
        };
        let env = self.env.iter();
        Ok(Command {
            argv,
            user: self.user.clone().unwrap_or_default(),
            working_dir: self.working_dir.clone().unwrap_or_default(),
            env: env.map(|(key, value)| format!("{key}={value}")).collect(),
        })
    }
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

fn report(redactor: &Redactor, container: String, end: ProcessEnd, seconds: u32) -> Executed {
    let note = if end.still_running {
        Some(format!(
            "It did not end within {seconds} s and cannot be killed from here, as the container \
                 has no shell: it still runs. Restarting the container ends it."
        ))
    } else if end.timed_out {
        Some(format!(
            "It did not end within {seconds} s and was killed, with its child processes; a \
                 longer timeout_seconds may let it end by itself."
        ))
    } else {
        match end.exit_code {
            Some(126 | 127) if !end.has_shell => {
                Some("It was not started: the output is the engine's reason.".to_owned())
            }
            Some(126) => Some("The command is not executable.".to_owned()),
            Some(127) => Some("The command was not found in the container.".to_owned()),
            _ => None,
        }
    };
    Executed {
        container,
        exit_code: end.exit_code,
        stdout: redactor.text(&end.stdout.text()),
        stderr: redactor.text(&end.stderr.text()),
        omitted_bytes: positive(end.stdout.omitted + end.stderr.omitted),
        timed_out: end.timed_out,
        still_running: end.still_running,
        exec_id: end.still_running.then_some(end.exec_id),
        note,
        redacted: redactor.hidden(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_fit_into_an_answer_whatever_their_characters() {
        for (stdout, stderr) in [("y\n", ""), ("", "\u{1}"), ("\"", "\\"), ("a", "é")] {
            let [stdout, stderr] = [stdout, stderr].map(|part| part.repeat(3_500));
            let mut done = Executed {
                container: "web".to_owned(),
                exit_code: Some(0),
                stdout: format!("first{stdout}last"),
                stderr: format!("first{stderr}last"),
                omitted_bytes: None,
                timed_out: false,
                still_running: false,
                exec_id: None,
                note: None,
                redacted: None,
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
}
