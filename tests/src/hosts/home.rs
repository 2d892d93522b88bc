//! A home folder for the files of hosts.

use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) use crate::harness::Folder as Home;
use crate::harness::binary;

impl Home {
    /// Runs a command with this home folder.
    pub(crate) fn run(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> Output {
        Command::new(binary(program))
            .args(args)
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(env.iter().copied())
            .current_dir(&self.0)
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed; returns all that it prints.
    #[track_caller]
    pub(crate) fn done(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> String {
        let output = self.run(program, args, env);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(output.status.success(), "{program} {args:?}: {text}");
        text
    }

    /// The file that a command says it has written.
    pub(crate) fn file(said: &str) -> PathBuf {
        let file = said.lines().find_map(|line| line.strip_prefix("written: "));
        file.unwrap_or_else(|| panic!("nothing was written: {said}"))
            .into()
    }
}
