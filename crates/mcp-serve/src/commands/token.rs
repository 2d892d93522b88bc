//! `SERVER token add|list|revoke`: changes the token file, which running servers follow.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use mcp_core::duration::parse_duration;

use super::{fail, print};
use crate::token_file::TokenFile;

/// Adds, lists and revokes the bearer tokens of the clients of a server.
///
/// Running servers follow the file within 2 s.
#[derive(Parser)]
pub(super) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Add a token, and write it to stdout, once. The file has only its hash.
    Add {
        /// Name of its owner, one word.
        name: String,
        /// Its role in mcp-gateway, which goes before `[principals]`. Servers without roles refuse a token
        /// that has one.
        #[arg(long)]
        role: Option<String>,
        /// Age at which it ends, such as 12h or 30d, or a time such as 2027-01-31T12:00:00Z.
        #[arg(long, value_name = "AGE", value_parser = expiry)]
        expires: Option<Timestamp>,
        #[command(flatten)]
        place: Place,
    },
    /// List the tokens: name, form, role and end.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Remove a token: it is refused, and its streams end.
    Revoke {
        /// Name of its owner.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
struct Place {
    /// File with one token per line.
    #[arg(long, env = "MCP_TOKEN_FILE", value_name = "FILE")]
    token_file: PathBuf,
}

pub(super) fn run(token: Token, server: &str) -> ExitCode {
    match act(token.action, Timestamp::now()) {
        Ok(text) => print(text.as_bytes()),
        Err(error) => fail(server, error),
    }
}

/// Returns what goes to stdout.
fn act(action: Action, now: Timestamp) -> anyhow::Result<String> {
    match action {
        Action::Add {
            name,
            role,
            expires,
            place,
        } => {
            let token = TokenFile::new(place.token_file).add(&name, role, expires)?;
            Ok(format!("{token}\n"))
        }
        Action::List { place } => list(&TokenFile::new(place.token_file), now),
        Action::Revoke { name, place } => {
            TokenFile::new(place.token_file).revoke(&name, now)?;
            Ok(String::new())
        }
    }
}

fn list(file: &TokenFile, now: Timestamp) -> anyhow::Result<String> {
    let mut text = String::new();
    for line in file.lines()? {
        let form = if line.is_hashed { "hashed" } else { "plain" };
        write!(text, "{} {form}", line.name)?;
        if let Some(role) = &line.role {
            write!(text, " role={role}")?;
        }
        match line.expires {
            Some(time) if time <= now => write!(text, " expired={time}")?,
            Some(time) => write!(text, " expires={time}")?,
            None => {}
        }
        text.push('\n');
    }
    Ok(text)
}

/// Parses an age from now on, or a time.
fn expiry(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let help = "must be an age such as 12h or 30d, or a time such as 2027-01-31T12:00:00Z";
    let age = parse_duration(text).context(help)?;
    let now = Timestamp::from_second(Timestamp::now().as_second())?;
    now.checked_add(age).context(help)
}
