//! The commands for hosts: `connect`, `doctor`, and of the gateway `bridge`.

mod bridge;
mod connect;
mod doctor;

use std::path::PathBuf;
use std::process::Command;

use crate::commands::Ended;
/// A home folder for the files of hosts.
pub(crate) use crate::harness::Folder as Home;
use crate::harness::binary;

impl Home {
    /// Runs a command with this home folder.
    pub(crate) fn run(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> Ended {
        let output = Command::new(binary(program))
            .args(args)
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(env.iter().copied())
            .current_dir(&self.0)
            .output();
        output.unwrap().into()
    }

    /// Runs a command that must succeed; returns all that it prints.
    #[track_caller]
    pub(crate) fn done(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> String {
        let ended = self.run(program, args, env);
        let text = ended.stdout + &ended.stderr;
        assert_eq!(ended.code, 0, "{program} {args:?}: {text}");
        text
    }

    /// The file that a command says it has written.
    pub(crate) fn file(said: &str) -> PathBuf {
        let file = said.lines().find_map(|line| line.strip_prefix("written: "));
        file.unwrap_or_else(|| panic!("nothing was written: {said}"))
            .into()
    }
}
