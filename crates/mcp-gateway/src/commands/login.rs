//! `mcp-gateway login`: lets a person log in to a backend, in a browser.

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use mcp_client::oauth::GrantType;
use mcp_core::suggestion::suggestion;

use super::{CONFIG_ERROR, Failure, load};
use crate::backend;
use crate::config::{BackendKey, Config, Options, Target};

/// Logs in to a backend with `grant = "login"`, in a browser on this machine.
///
/// A gateway that runs uses the new tokens at its next try. Exit code: 0 logged in, 1 not, 78 unusable
/// configuration.
#[derive(Parser)]
pub(super) struct Login {
    /// Name of the backend.
    // `backend` is the option `--backend`.
    name: String,
    /// Only print the address of the login page.
    #[arg(long)]
    no_browser: bool,
    /// Seconds to wait for the login.
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(login: Login) -> ExitCode {
    let timeout = Duration::from_secs(login.wait);
    let done = load(login.options)
        .and_then(|config| log_in(&config, &login.name, timeout, !login.no_browser));
    let (code, text) = match done {
        Ok(()) => (0, format!("Logged in to {}.", login.name)),
        Err(Failure(code, text)) => (code, text),
    };
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(code)
}

fn log_in(config: &Config, name: &str, timeout: Duration, browser: bool) -> Result<(), Failure> {
    let found = config.backends.iter().find(|(key, _)| key.as_str() == name);
    let remote = found.map(|(_, backend)| &backend.target);
    let found = match remote {
        None => {
            let hint = suggestion(name, config.backends.keys().map(BackendKey::as_str));
            Err(format!("there is no backend {name:?}{hint}"))
        }
        Some(Target::Http(remote)) => match &remote.oauth {
            Some(settings) if settings.grant == GrantType::Login => Ok((remote, settings)),
            Some(_) => Err(format!(
                "backends.{name}.oauth: this grant needs no person. For a login set `grant = \"login\"`"
            )),
            None => Err(format!(
                "nobody can log in to the backend {name}: it has no OAuth ([backends.{name}.oauth]). To give it a token \
                 write `token = \"${{NAME}}\"` or `token = \"file:PATH\"` into [backends.{name}]"
            )),
        },
        Some(Target::Child(_)) => Err(format!(
            "nobody can log in to the backend {name}, which is a program and has no `url`. To give it a token write \
             `NAME = \"file:PATH\"` into [backends.{name}.env]"
        )),
    };
    let (remote, settings) = found.map_err(|text| Failure(CONFIG_ERROR, text))?;
    let failed = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    let oauth = backend::oauth(remote, settings).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| failed(&error))?;
    let open = |page: &str| {
        let _ = writeln!(std::io::stderr(), "Log in on this page:\n{page}");
        if browser {
            open_browser(page);
        }
    };
    let done = runtime.block_on(oauth.login(timeout, open));
    done.map_err(|error| failed(&error))
}

/// Opens the page on a desktop; without one, or without the program, nothing happens.
fn open_browser(page: &str) {
    let has_desktop = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program: &[&str] = match () {
        () if cfg!(target_os = "macos") => &["open"],
        // Not `start`, which is of a shell that takes the `&` of an address for its own.
        () if cfg!(windows) => &["rundll32", "url.dll,FileProtocolHandler"],
        () if has_desktop("DISPLAY") || has_desktop("WAYLAND_DISPLAY") => &["xdg-open"],
        () => return,
    };
    let mut command = Command::new(program[0]);
    let command = command.args(&program[1..]).arg(page).stdin(Stdio::null());
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
