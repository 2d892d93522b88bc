//! The configuration file of every server, and the commands that every server has.

mod config;
mod doctor;
mod pages;
mod schema;

use std::path::PathBuf;
use std::process::Command;

use crate::harness::binary;

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file that only this user can read.
    fn write(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that has ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs a program with only these variables.
fn run(program: &str, args: &[&str], env: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(binary(program));
    let command = command.args(args).env_clear().envs(env.iter().copied());
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
