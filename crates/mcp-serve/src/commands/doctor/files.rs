//! Files with secrets: there, and readable by this user only.

use std::path::Path;

use clap::Command;

use super::report::Report;

/// Checks the files with secrets that the environment names.
pub(super) fn examine(report: &mut Report, server: &Command) {
    for arg in server.get_arguments() {
        let Some(name) = arg.get_env().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_secret = ["TOKEN", "KEY", "CREDENTIAL"]
            .iter()
            .any(|word| name.contains(word));
        if !is_secret || !name.ends_with("_FILE") {
            continue;
        }
        let path = std::env::var_os(name).unwrap_or_default();
        if path.to_str().is_some_and(|path| path.trim().is_empty()) {
            continue;
        }
        let path = Path::new(&path);
        match std::fs::File::open(path).and_then(|file| file.metadata()) {
            Err(error) => {
                let text = format!("{name}: {}: {error}", path.display());
                report.fail("file", text, "write the secret to it, with mode 600");
            }
            Ok(facts) if is_shared(&facts) => {
                let text = format!("{name}: other users can read {}", path.display());
                report.warn("file", text, "chmod 600");
            }
            Ok(_) => {
                let text = match cfg!(unix) {
                    true => format!("{name}: only this user can read {}", path.display()),
                    false => format!("{name}: {} can be read", path.display()),
                };
                report.ok("file", text);
            }
        }
    }
}

#[cfg(unix)]
fn is_shared(facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    facts.permissions().mode() & 0o044 != 0
}

/// On Windows a file has the rights of its folder, which are not looked at.
#[cfg(not(unix))]
fn is_shared(_: &std::fs::Metadata) -> bool {
    false
}
