//! `mcp-gateway pins`: lists the tools whose definition has changed, and approves or refuses them.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use gateway_approvals::pins::{self, Pin, printable};
use gateway_store::Database;
use gateway_store::state::{Entry, Expected};

use super::{Failure, open, print, user, wait};
use crate::config::{Options, PinMode};

/// Digits of a hash that are shown in lists, and the fewest that choose a definition.
const SHORT_HASH: usize = 12;

/// Attempts to store a decision while the gateway writes at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Shows, approves and refuses the definitions of the backends' tools.
///
/// A running gateway follows within a second. Exit code: 0 done, 1 nothing found or not done (`diff`: there are
/// changes), 78 unusable configuration.
#[derive(Parser)]
pub(super) struct PinsCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists the tools and whether they are approved.
    List(Selection),
    /// Shows what has changed since the approval.
    Diff(Selection),
    /// Approves the definitions that are offered now, or the one with `--hash`.
    Approve(Choice),
    /// Refuses the definitions that are offered now: these tools are held back, also with `pins = "warn"`.
    Refuse(Choice),
}

#[derive(Args)]
struct Selection {
    /// A backend, or one of its tools (BACKEND__TOOL); all of them if it is left out.
    name: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
struct Choice {
    /// A backend, or one of its tools (BACKEND__TOOL).
    name: String,
    /// The hash that `diff` has shown; nothing is done if another definition is offered meanwhile.
    #[arg(long)]
    hash: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(command: PinsCommand) -> ExitCode {
    let done = match command.action {
        Action::List(selection) => list(selection),
        Action::Diff(selection) => show(selection),
        Action::Approve(choice) => decide(choice, true),
        Action::Refuse(choice) => decide(choice, false),
    };
    Failure::exit_code(done)
}

fn list(selection: Selection) -> Result<u8, Failure> {
    let store = Store::open(selection.options)?;
    for (_, pin, _) in store.find(selection.name.as_deref())? {
        let definition = pin.offered.as_ref().or(pin.approved.as_ref());
        let (hash, since) = definition.map_or(("", ""), |found| (&*found.hash, &*found.since));
        let hash = hash.get(..SHORT_HASH).unwrap_or(hash);
        let (status, name) = (pin.status(), printable(&pin.name()));
        print(&format!("{status:<9} {hash} {since} {name}"));
    }
    Ok(0)
}

fn show(selection: Selection) -> Result<u8, Failure> {
    let store = Store::open(selection.options)?;
    let mut found = 0;
    for (_, pin, _) in store.find(selection.name.as_deref())? {
        let Some(offered) = &pin.offered else {
            continue;
        };
        found = 1;
        print(&format!("{} ({})", printable(&pin.name()), pin.status()));
        if let Some(from) = &pin.renamed_from {
            print(
                &printable(&format!("- name: {from}\n+ name: {}", pin.tool))
                    .replace("\\u{a}", "\n"),
            );
        }
        match pin.diff() {
            Some(lines) => lines.iter().for_each(|line| print(line)),
            None => print("the definition is too long to be shown"),
        }
        print(&format!("hash {}", offered.hash));
    }
    Ok(found)
}

fn decide(choice: Choice, approve: bool) -> Result<u8, Failure> {
    let start = choice.hash.as_deref();
    if start.is_some_and(|start| start.len() < SHORT_HASH) {
        let text = format!("--hash: needs at least {SHORT_HASH} digits");
        return Err(Failure::new(text));
    }
    let store = Store::open(choice.options)?;
    let offered = |pin: &Pin| pin.offered.as_ref().map(|offered| offered.hash.clone());
    // The definitions of this moment; the gateway may write them again, but not others in their place.
    let found = store.find(Some(&choice.name))?;
    // A refusal is about one definition: only its name or its hash takes it back, not the name of its backend.
    let is_named = |pin: &Pin| start.is_some() || pin.name() == choice.name;
    let is_left = |pin: &Pin| pin.status() == "refused" && !is_named(pin);
    let mut refused = found.iter().filter(|(_, pin, _)| is_left(pin));
    let refused = refused
        .next()
        .map(|(_, pin, _)| pin.name())
        .filter(|_| approve);
    let wanted = found.into_iter().filter(|(_, pin, _)| !is_left(pin));
    let wanted = wanted.filter_map(|(key, pin, _)| Some((key, offered(&pin)?)));
    let is_chosen = |hash: &str| start.is_none_or(|start| hash.starts_with(start));
    let wanted: Vec<(String, String)> = wanted.filter(|(_, hash)| is_chosen(hash)).collect();
    if wanted.is_empty() {
        let text = match (start, refused) {
            (Some(_), _) => "nothing done: no definition with this hash is offered now".to_owned(),
            (None, Some(name)) => format!(
                "nothing done: {} was refused; approve it by its name or --hash",
                printable(&name)
            ),
            (None, None) => "nothing done: there is no change to decide about".to_owned(),
        };
        return Err(Failure::new(text));
    }
    let word = if approve { "approved" } else { "refused" };
    for _ in 0..MAX_ATTEMPTS {
        let found = store.find(Some(&choice.name))?.into_iter();
        let mut lines = Vec::new();
        let decided = found.filter_map(|(key, mut pin, entry)| {
            let (_, hash) = wanted.iter().find(|(wanted, _)| *wanted == key)?;
            if offered(&pin).as_ref() != Some(hash) {
                return None;
            }
            lines.push(format!("{word:<9} {hash} {}", printable(&pin.name())));
            let event = pin.decide(approve, user());
            let expected = Expected::Revision(entry.revision);
            Some((pins::store(key, &pin, expected), event))
        });
        let (changes, events): (Vec<_>, Vec<_>) = decided.unzip();
        if events.len() < wanted.len() {
            let text =
                "nothing done: a definition has changed meanwhile; see `mcp-gateway pins diff`";
            return Err(Failure::new(text));
        }
        let stored = wait(store.database.state.change(changes))?;
        if stored.map_err(Failure::unavailable)? {
            for (event, line) in events.into_iter().zip(&lines) {
                store.database.log.record(event);
                print(line);
            }
            store.database.close();
            return Ok(0);
        }
    }
    let text = "nothing done: the gateway is changing these tools all the time";
    Err(Failure::new(text))
}

/// The pins of a gateway.
struct Store {
    database: Database,
    /// Backends whose tools are not compared.
    off: Vec<String>,
}

impl Store {
    fn open(options: Options) -> Result<Self, Failure> {
        let (database, config) = open(options)?;
        let off = config
            .backends
            .iter()
            .filter(|(_, backend)| backend.pins.mode == PinMode::Off);
        Ok(Self {
            database,
            off: off.map(|(key, _)| key.to_string()).collect(),
        })
    }

    /// Returns the pins of a backend, or of one tool; all of them for `None`.
    fn find(&self, name: Option<&str>) -> Result<Vec<(String, Pin, Entry)>, Failure> {
        let state = &self.database.state;
        wait(state.refresh())?.map_err(Failure::unavailable)?;
        let mut found = pins::read(&state.entries(), "");
        found.retain(|(_, pin, _)| {
            let is_chosen = name.is_none_or(|name| pin.backend == name || pin.name() == name);
            is_chosen && !self.off.contains(&pin.backend)
        });
        found.sort_by(|(_, one, _), (_, other, _)| {
            (&one.backend, &one.tool).cmp(&(&other.backend, &other.tool))
        });
        match (found.is_empty(), name) {
            (true, Some(name)) => {
                let text = format!("no tool and no backend {name:?} is known");
                Err(Failure::new(text))
            }
            _ => Ok(found),
        }
    }
}
