//! `completions` and `man`: read by the programs that they are for, where those are installed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Folder, run};
use crate::surface::{SERVERS, printed};

/// Runs a checker with this input; `None` if it is not installed.
fn complaints(program: &str, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    let command = command
        .args(args)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(match output.status.success() {
        true => text,
        false => format!("{}: {text}", output.status),
    })
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let folder = Folder::new();
    for server in SERVERS {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let ended = run(server, &["completions", shell], &[]);
            assert_eq!(ended.code, 0, "{server}: {}", ended.stderr);
            for word in ["read-only", "doctor", "offline", "token"] {
                assert!(ended.stdout.contains(word), "{server} {shell}: no {word}");
            }
            if ["bash", "zsh", "fish"].contains(&shell) {
                let file = folder.write("script", &ended.stdout);
                let found = complaints(shell, &["-n", &file], "");
                assert_eq!(found.unwrap_or_default(), "", "{server} {shell}");
            }
        }
        assert_eq!(run(server, &["completions", "x"], &[]).code, 2);
    }
}

#[test]
fn manual_pages_have_every_option_and_no_fault() {
    for server in SERVERS {
        let page = run(server, &["man"], &[]).stdout;
        let options: Vec<Value> =
            serde_json::from_str(&printed(server, "--print-options")).unwrap();
        let plain = page.replace("\\-", "-");
        for option in options {
            for name in [&option["flag"], &option["env"]] {
                let name = name.as_str().unwrap();
                assert!(plain.contains(name), "{server}: {name} is not in the page");
            }
        }
        for section in ["EXIT STATUS", "FILES", "SUBCOMMANDS", "78"] {
            assert!(page.contains(section), "{server}: no {section}");
        }
        for page in [
            page,
            run(server, &["man", "token", "add"], &[]).stdout,
            run(server, &["man", "doctor"], &[]).stdout,
        ] {
            assert!(page.contains(".TH"), "{server}: {page}");
            let checkers = [
                ("groff", &["-man", "-ww", "-Tutf8", "-z"][..]),
                ("mandoc", &["-Tlint", "-Wwarning"]),
            ];
            for (program, args) in checkers {
                assert_eq!(
                    complaints(program, args, &page).unwrap_or_default(),
                    "",
                    "{server} {program}"
                );
            }
        }
        assert_eq!(run(server, &["man", "nonsense"], &[]).code, 1);
    }
}
