//! The configuration file of every server, and the commands that every server has.

mod config;
mod doctor;
mod schema;

use std::process::{Command, Output};

use crate::harness::{assert_contains, binary};
use crate::surface::{SERVERS, options};

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program with only these variables.
pub(crate) fn run(program: &str, args: &[&str], env: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(binary(program));
    let command = command.args(args).env_clear().envs(env.iter().copied());
    command.output().unwrap().into()
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn completions_and_manual_pages_have_every_option() {
    for server in SERVERS {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let ended = run(server, &["completions", shell], &[]);
            assert_eq!(ended.code, 0, "{server}: {}", ended.stderr);
            for word in ["read-only", "doctor", "offline", "token"] {
                assert_contains(&ended.stdout, word);
            }
        }
        assert_eq!(run(server, &["completions", "x"], &[]).code, 2);
        let page = run(server, &["man"], &[]).stdout.replace("\\-", "-");
        let options = options(server);
        for option in options {
            for name in ["flag", "env"] {
                assert_contains(&page, option[name].as_str().unwrap());
            }
        }
        for command in [&["man", "token", "add"][..], &["man", "doctor"]] {
            assert_contains(&run(server, command, &[]).stdout, ".TH");
        }
        assert_eq!(run(server, &["man", "nonsense"], &[]).code, 1);
    }
}
