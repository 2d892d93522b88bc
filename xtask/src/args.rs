//! The command line.

use crate::services::Service;

/// What `cargo xtask` alone prints.
pub(crate) const HELP: &str = "\
The chores of this workspace.

  cargo xtask run-all        build and start the servers with the gateway in front of them, and the
                             services that they need:
                             those configured in the environment (N8N_URL + N8N_API_KEY,
                             OPENHANDS_URL + OPENHANDS_API_KEY, DOCKER_HOST), those found at
                             their default addresses, and local ones for the rest
      --only NAME            only this service: n8n, openhands or docker (may be repeated,
                             or a list with commas)
      --no-local             start no local service
      --release              build optimised servers
  cargo xtask test           format, lints, unit tests, then the servers against real services
      --quick                leave the real services out
      --keep                 afterwards keep the services up until Ctrl-C
  cargo xtask check          format, lints and documentation
  cargo xtask codegen        write the snapshots and the generated parts of the README anew
  cargo xtask conformance    the official suite of the protocol against the fixture server, and
                             against the three servers as far as it needs no tools of its own
  cargo xtask clients        real clients of others against the fixture server
  cargo xtask bench          what requests cost, beside a bare hyper server in the same run
      --instructions         only the count that no other work on the machine changes
  cargo xtask images         images of the servers with nothing but their programs, for the
                             docker-compose.yml; they go to the engine of DOCKER_HOST
      --release              optimised ones
      --check                instead, bring that project up from them on an engine of its own, look
                             whether each server answers and is shut in, and take it down
  cargo xtask scripted-llm   a model on loopback that does what its prompt says, in lines that
                             begin with RUN: WRITE: SAY: SLEEP: HTTP: FINISH:
      --port N               its port (default: 8001)

What is fetched is kept under target/backends and used again. Ctrl-C stops what was started.";

/// One of the chores, with its options.
#[derive(Debug, PartialEq)]
pub(crate) enum Chore {
    /// Print the help.
    Help,
    /// Start everything and keep it running.
    RunAll(RunAll),
    /// Run all tests.
    Test(Test),
    /// Look at the code without running it.
    Check,
    /// Write generated files.
    Codegen,
    /// Run the official suite.
    Conformance,
    /// Run the clients of others.
    Clients,
    /// Make images of the servers.
    Images {
        /// Build with optimisations.
        release: bool,
        /// Only look whether the project comes up from them.
        check: bool,
    },
    /// Measure.
    Bench {
        /// Only what no other work on the machine changes.
        instructions: bool,
    },
    /// Serve the scripted model.
    ScriptedLlm {
        /// The port on loopback.
        port: u16,
    },
}

/// The options of `run-all`.
#[derive(Debug, PartialEq)]
pub(crate) struct RunAll {
    /// The services to serve.
    pub(crate) services: Vec<Service>,
    /// May start services that are not there.
    pub(crate) local: bool,
    /// Build with optimisations.
    pub(crate) release: bool,
}

/// The options of `test`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Test {
    /// Leave the real services out.
    pub(crate) quick: bool,
    /// Keep the services up afterwards.
    pub(crate) keep: bool,
}

/// Reads the command line without the program's own name; the error is one line for the user.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Chore, String> {
    let mut args = args.into_iter();
    let Some(chore) = args.next() else {
        return Ok(Chore::Help);
    };
    match chore.as_str() {
        "help" | "--help" | "-h" => Ok(Chore::Help),
        "run-all" => run_all(args),
        "test" => test(args),
        "check" => nothing_more(args).map(|()| Chore::Check),
        "codegen" => nothing_more(args).map(|()| Chore::Codegen),
        "clients" => nothing_more(args).map(|()| Chore::Clients),
        "conformance" => nothing_more(args).map(|()| Chore::Conformance),
        "bench" => bench(args),
        "images" => images(args),
        "scripted-llm" => scripted_llm(args),
        other => Err(format!("there is no chore `{other}`")),
    }
}

fn run_all(args: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut options = RunAll {
        services: Vec::new(),
        local: true,
        release: false,
    };
    let mut args = split_equals(args);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--no-local" => options.local = false,
            "--release" => options.release = true,
            "--only" => {
                let names = args
                    .next()
                    .ok_or("--only needs a name: n8n, openhands or docker")?;
                for name in names.split(',') {
                    let service = service(name)?;
                    if !options.services.contains(&service) {
                        options.services.push(service);
                    }
                }
            }
            "--help" | "-h" => return Ok(Chore::Help),
            other => return Err(format!("run-all has no option `{other}`")),
        }
    }
    if options.services.is_empty() {
        options.services.extend(Service::ALL);
    }
    Ok(Chore::RunAll(options))
}

fn test(args: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut options = Test::default();
    for arg in args {
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--keep" => options.keep = true,
            "--help" | "-h" => return Ok(Chore::Help),
            other => return Err(format!("test has no option `{other}`")),
        }
    }
    Ok(Chore::Test(options))
}

fn bench(args: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut instructions = false;
    for arg in args {
        match arg.as_str() {
            "--instructions" => instructions = true,
            "--help" | "-h" => return Ok(Chore::Help),
            other => return Err(format!("bench has no option `{other}`")),
        }
    }
    Ok(Chore::Bench { instructions })
}

fn images(args: impl Iterator<Item = String>) -> Result<Chore, String> {
    let (mut release, mut check) = (false, false);
    for arg in args {
        match arg.as_str() {
            "--release" => release = true,
            "--check" => check = true,
            "--help" | "-h" => return Ok(Chore::Help),
            other => return Err(format!("images has no option `{other}`")),
        }
    }
    Ok(Chore::Images { release, check })
}

fn scripted_llm(args: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut port = 8001;
    let mut args = split_equals(args);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--port" => {
                port = args
                    .next()
                    .and_then(|port| port.parse().ok())
                    .ok_or("--port needs a number up to 65535")?
            }
            "--help" | "-h" => return Ok(Chore::Help),
            other => return Err(format!("scripted-llm has no option `{other}`")),
        }
    }
    Ok(Chore::ScriptedLlm { port })
}

fn service(name: &str) -> Result<Service, String> {
    let found = Service::ALL
        .into_iter()
        .find(|service| service.name() == name || service.server() == name);
    found.ok_or_else(|| format!("there is no service `{name}`: n8n, openhands or docker"))
}

fn nothing_more(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    args.next().map_or(Ok(()), |arg| {
        Err(format!("`{arg}` is one argument too many"))
    })
}

/// Makes `--only=n8n` the same as `--only n8n`.
fn split_equals(args: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    args.flat_map(|arg| match arg.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
        _ => vec![arg],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Chore, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn nothing_is_a_question_for_help() {
        for line in ["", "help", "--help", "run-all -h", "test --help"] {
            assert_eq!(parsed(line), Ok(Chore::Help), "{line}");
        }
    }

    #[test]
    fn run_all_serves_everything_unless_told() {
        let all = RunAll {
            services: Service::ALL.to_vec(),
            local: true,
            release: false,
        };
        assert_eq!(parsed("run-all"), Ok(Chore::RunAll(all)));
        let some = RunAll {
            services: vec![Service::Docker, Service::N8n],
            local: false,
            release: true,
        };
        for line in [
            "run-all --only docker,n8n --no-local --release",
            "run-all --release --only docker --only=n8n --no-local --only docker",
        ] {
            assert_eq!(
                parsed(line).as_ref(),
                Ok(&Chore::RunAll(RunAll {
                    services: some.services.clone(),
                    ..some
                })),
                "{line}"
            );
        }
    }

    #[test]
    fn tests_are_whole_unless_told() {
        assert_eq!(
            parsed("test"),
            Ok(Chore::Test(Test {
                quick: false,
                keep: false
            }))
        );
        assert_eq!(
            parsed("test --keep --quick"),
            Ok(Chore::Test(Test {
                quick: true,
                keep: true
            }))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, word) in [
            ("run", "`run`"),
            ("run-all --fast", "`--fast`"),
            ("run-all --only", "--only"),
            ("run-all --only podman", "`podman`"),
            ("check all", "`all`"),
            ("scripted-llm --port 70000", "--port"),
        ] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
