//! `mcp-gateway approvals`: the calls that wait for an operator.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use gateway_approvals::approvals::{self, Approval, ApprovalStatus};
use gateway_approvals::pins::printable;
use gateway_store::state::{Entries, Entry, EntryKind, Expected, StateDatabase};
use upstream::time::rfc3339;

use super::{Failure, open_state, print, user};
use crate::config::Options;

/// The fewest digits that choose an approval.
const MIN_ID_DIGITS: usize = 6;

/// Attempts to store a decision.
const MAX_ATTEMPTS: usize = 5;

/// Interval at which the command looks whether the gateway has taken a decision.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
        /// Also those that have ended: at most 1,000, of the last week.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Shows a call with its arguments, without secrets.
    Show(Chosen),
    /// Lets it be made.
    Approve(Chosen),
    /// Ends it.
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
    let (mut database, _) = open_state(options)?;
    let entries = read(&mut *database)?;
    for (approval, _) in approvals::read(&entries) {
        let status = approval.status_in(&entries);
        if all || status == ApprovalStatus::Waiting {
            print(&line(&approval, status));
        }
    }
    Ok(0)
}

fn show(chosen: Chosen) -> Result<u8, Failure> {
    let (mut database, _) = open_state(chosen.options)?;
    let entries = read(&mut *database)?;
    let (approval, _) = find(&entries, &chosen.id)?;
    print(&line(&approval, approval.status_in(&entries)));
    approval
        .arguments
        .lines()
        .for_each(|line| print(&printable(line)));
    print(&format!("hash {}", approval.hash));
    Ok(0)
}

fn decide(chosen: Chosen, status: ApprovalStatus) -> Result<u8, Failure> {
    let (mut database, _) = open_state(chosen.options)?;
    for _ in 0..MAX_ATTEMPTS {
        let entries = read(&mut *database)?;
        let (approval, entry) = find(&entries, &chosen.id)?;
        let before = approval.status_in(&entries);
        if before != ApprovalStatus::Waiting {
            let text = format!("nothing done: the call is {} already", before.name());
            return Err(Failure(1, text));
        }
        let decided = approval.decided(status, &user(), approvals::now());
        let change = approvals::store(&decided, Expected::Revision(entry.revision));
        if database.apply(&[change]).map_err(Failure::unavailable)? {
            if status == ApprovalStatus::Approved && !is_taken(&mut *database, &approval)? {
                let text = "nothing done: the call has ended, or its gateway does not answer";
                return Err(Failure(1, text.to_owned()));
            }
            print(&line(&decided, status));
            return Ok(0);
        }
    }
    Err(Failure(
        1,
        "nothing done: the call is changing all the time".to_owned(),
    ))
}

/// Waits until the gateway of an approved call uses the approval up, right before it makes the call. If it does not, the
/// approval is withdrawn: the call is as it was `before`.
fn is_taken(database: &mut dyn StateDatabase, before: &Approval) -> Result<bool, Failure> {
    let until = Instant::now() + approvals::MAX_DECISION_DELAY;
    loop {
        let entries = read(database)?;
        let Some(entry) = entries.get(EntryKind::Approval, &before.id) else {
            return Ok(false);
        };
        match entry.read::<Approval>().map(|approval| approval.status) {
            Some(ApprovalStatus::Used) => return Ok(true),
            Some(ApprovalStatus::Approved) => {}
            _ => return Ok(false),
        }
        if Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        let change = approvals::store(before, Expected::Revision(entry.revision));
        if database.apply(&[change]).map_err(Failure::unavailable)? {
            return Ok(false);
        }
    }
}

fn read(database: &mut dyn StateDatabase) -> Result<Entries, Failure> {
    Entries::read(database).map_err(Failure::unavailable)
}

fn find(entries: &Entries, id: &str) -> Result<(Approval, Entry), Failure> {
    let mut found = approvals::read(entries);
    found.retain(|(approval, _)| approval.id.starts_with(id));
    match found.len() {
        _ if id.len() < MIN_ID_DIGITS => {
            let text = format!("an id needs at least {MIN_ID_DIGITS} digits");
            Err(Failure(1, text))
        }
        1 => Ok(found.swap_remove(0)),
        0 => Err(Failure(1, "there is no approval with this id".to_owned())),
        _ => Err(Failure(1, "several approvals begin like this".to_owned())),
    }
}

fn line(approval: &Approval, status: ApprovalStatus) -> String {
    let who = approval.principal.as_deref().unwrap_or("-");
    let (id, until) = (&approval.id, rfc3339(approval.expires));
    let text = format!(
        "{:<9} {id} until {until} {who} {}",
        status.name(),
        approval.tool
    );
    printable(&text)
}
