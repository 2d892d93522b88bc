//! `mcp-gateway approvals`: the calls that wait for an operator.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use gateway_approvals::approvals::{self, Approval, ApprovalStatus};
use gateway_approvals::pins::printable;
use gateway_store::state::{Entries, Entry};
use upstream::time::rfc3339;

use super::{Failure, open, print, user, wait};
use crate::config::Options;

/// The fewest digits that choose an approval.
const MIN_ID_DIGITS: usize = 6;

/// Shows, approves and refuses the calls that wait for an operator.
///
/// Exit code: 0 done, 1 nothing found or not done, 78 unusable configuration.
#[derive(Parser)]
pub(super) struct ApprovalsCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists the calls that wait.
    List {
        /// Also the calls that have ended: at most 1,000, of the last week.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Shows a call with its arguments, without secrets.
    Show(Chosen),
    /// Approves a call, which the gateway makes then.
    Approve(Chosen),
    /// Refuses a call, which fails then.
    Refuse(Chosen),
}

#[derive(Args)]
struct Chosen {
    /// The id of the approval, or its first digits.
    id: String,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(command: ApprovalsCommand) -> ExitCode {
    let done = match command.action {
        Action::List { all, options } => list(all, options),
        Action::Show(chosen) => show(chosen),
        Action::Approve(chosen) => decide(chosen, ApprovalStatus::Approved),
        Action::Refuse(chosen) => decide(chosen, ApprovalStatus::Refused),
    };
    Failure::exit_code(done)
}

fn list(all: bool, options: Options) -> Result<u8, Failure> {
    let (database, _) = open(options)?;
    let running = wait(approvals::running(&database.state))?;
    for (approval, _) in approvals::read(&database.state.entries()) {
        let status = approval.status_among(&running);
        if all || status == ApprovalStatus::Waiting {
            print(&line(&approval, status));
        }
    }
    Ok(0)
}

fn show(chosen: Chosen) -> Result<u8, Failure> {
    let (database, _) = open(chosen.options)?;
    let running = wait(approvals::running(&database.state))?;
    let (approval, _) = find(&database.state.entries(), &chosen.id)?;
    print(&line(&approval, approval.status_among(&running)));
    let client = approval.client.as_deref().unwrap_or("-");
    if let Some(reason) = &approval.reason {
        print(&printable(&format!("{:<12} {reason}", "changed")));
    }
    for (name, value) in [
        ("client", client),
        ("effect", &approval.effect),
        ("description", &approval.description),
        ("rule", &approval.rule),
    ] {
        print(&printable(&format!("{name:<12} {value}")));
    }
    approval
        .arguments
        .lines()
        .for_each(|line| print(&printable(line)));
    print(&format!("hash {}", approval.hash));
    Ok(0)
}

fn decide(chosen: Chosen, status: ApprovalStatus) -> Result<u8, Failure> {
    let (database, _) = open(chosen.options)?;
    let running = wait(approvals::running(&database.state))?;
    let (approval, entry) = find(&database.state.entries(), &chosen.id)?;
    let nothing_done = |why: &str| Failure::new(format!("nothing done: {why}"));
    let before = approval.status_among(&running);
    if before != ApprovalStatus::Waiting {
        let reason = approval.reason.as_deref();
        let reason = reason.map(|reason| format!(": {reason}"));
        return Err(nothing_done(&printable(&format!(
            "the call is {before} already{}",
            reason.unwrap_or_default()
        ))));
    }
    let user = user();
    let decided = approvals::decide(&database.state, approval, &entry, status, &user);
    let decided = wait(decided)?.map_err(|(_, why)| nothing_done(why))?;
    print(&line(&decided, status));
    if status == ApprovalStatus::Approved {
        print(approvals::MADE_NOW);
    }
    Ok(0)
}

fn find(entries: &Entries, id: &str) -> Result<(Approval, Entry), Failure> {
    let mut found = approvals::read(entries);
    found.retain(|(approval, _)| approval.id.starts_with(id));
    match found.len() {
        _ if id.len() < MIN_ID_DIGITS => {
            let text = format!("an id needs at least {MIN_ID_DIGITS} digits");
            Err(Failure::new(text))
        }
        1 => Ok(found.swap_remove(0)),
        0 => Err(Failure::new("there is no approval with this id")),
        _ => Err(Failure::new("several approvals begin like this")),
    }
}

fn line(approval: &Approval, status: ApprovalStatus) -> String {
    let who = approval.principal.as_deref().unwrap_or("-");
    let (id, until) = (&approval.id, rfc3339(approval.expires));
    let tool = &approval.tool;
    printable(&format!("{status:<9} {id} until {until} {who} {tool}"))
}
