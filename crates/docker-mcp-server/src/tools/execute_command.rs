//! `execute_command`.

use docker_engine::exec::{Command, Process, ProcessEnd};

use super::prelude::*;

/// Seconds without `timeout_seconds`.
const DEFAULT_SECONDS: u32 = 20;
/// The time for the end of a process that has to be killed.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of each output without `max_bytes`: an answer contains both, twice.
const DEFAULT_BYTES: u32 = 3_500;

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
        let run = async {
            let mut process =
                Process::start(&docker.engine, &docker.processes, &id, &command).await?;
            tokio::select! {
                end = process.end(limit, room) => end.map(Some),
                () = call.cancelled() => {
                    process.kill().await;
                    Ok(None)
                }
            }
        };
        match run.await {
            Ok(Some(end)) => Ok(report(&redactor, name, end, seconds)),
            Ok(None) => Err(cancelled()),
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
