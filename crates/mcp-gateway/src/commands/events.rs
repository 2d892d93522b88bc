//! `mcp-gateway events`: prints, follows and exports the event log of a gateway, which may be running.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gateway_store::events::{
    EventStatus, OpenStore, Record, Store, StoreError, StoreFault, StoreLocation, kind,
};
use serde_json::Value;
use upstream::time::{Since, Timestamp};

use super::CONFIG_ERROR;
use crate::config::Options;

/// Events that are read at a time.
const PAGE: usize = 1_000;

/// The time between two looks for new events.
const INTERVAL: Duration = Duration::from_millis(300);

/// Prints the events of a gateway, also of one that runs: the newest that match, or all with `--all`.
///
/// Needs `events.store` to be a file or a PostgreSQL database.
#[derive(Parser)]
pub(super) struct Events {
    /// Waits for more events and prints them as they come.
    #[arg(long, short)]
    follow: bool,
    /// Prints one JSON object a line, in the form of get_events.
    #[arg(long)]
    json: bool,
    /// All events that match, and not only the newest: with `--json` an export.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// The number of events.
    #[arg(long, short = 'n', default_value_t = 100, value_name = "NUMBER")]
    limit: usize,
    /// Age such as 15m, 24h or 7d, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only requests of this principal.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only of this backend.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only of this tool, prompt or resource.
    #[arg(long, value_name = "NAME")]
    item: Option<String>,
    /// Only events of this type, such as gateway.tool_call.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only with this status: success, failure or pending.
    #[arg(long, value_parser = status)]
    status: Option<EventStatus>,
    /// Only with this outcome: ok, denied, failed, timed_out or cancelled.
    #[arg(long)]
    outcome: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(events: Events) -> ExitCode {
    let complain = |text: String| drop(writeln!(io::stderr(), "{text}"));
    let location = match events.options.clone().load() {
        Ok((config, _)) => config.events,
        Err(error) => {
            complain(error.to_string());
            return ExitCode::from(CONFIG_ERROR);
        }
    };
    match events.print(&location) {
        Ok(()) => ExitCode::SUCCESS,
        // Such as `head`, which has read enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            complain(failure.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Why events are not printed.
enum Failure {
    Store(String),
    Output(io::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(reason) => f.write_str(reason),
            Self::Output(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(format!("the event log cannot be read: {}", error.reason))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Events {
    fn print(&self, location: &StoreLocation) -> Result<(), Failure> {
        let mut reader = Reader::open(location, self.since)?;
        let mut out = BufWriter::new(io::stdout().lock());
        let mut newest = VecDeque::new();
        loop {
            let page = reader.page()?;
            if page.is_empty() {
                break;
            }
            for record in page.into_iter().filter(|record| self.matches(record)) {
                if self.all {
                    self.write(&mut out, &record)?;
                    continue;
                }
                if newest.len() >= self.limit {
                    newest.pop_front();
                }
                if self.limit > 0 {
                    newest.push_back(record);
                }
            }
        }
        for record in &newest {
            self.write(&mut out, record)?;
        }
        out.flush()?;
        if !self.follow {
            return Ok(());
        }
        loop {
            std::thread::sleep(INTERVAL);
            let page = match reader.page() {
                Ok(page) => page,
                // The gateway has begun a new file.
                Err(error) if error.fault == StoreFault::Replaced => {
                    reader = Reader::open(location, None)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for record in page.iter().filter(|record| self.matches(record)) {
                self.write(&mut out, record)?;
            }
            out.flush()?;
        }
    }

    fn matches(&self, record: &Record) -> bool {
        let is = |wanted: Option<&String>, found: &str| wanted.is_none_or(|wanted| wanted == found);
        if !is(self.event_type.as_ref(), &record.event_type)
            || self.status.is_some_and(|status| status != record.status)
        {
            return false;
        }
        let filters = [
            (&self.principal, ["principal", "principal"]),
            (&self.from, ["backend", "backend"]),
            (&self.item, ["tool_name", "item"]),
            (&self.outcome, ["outcome", "outcome"]),
        ];
        if filters.iter().all(|(wanted, _)| wanted.is_none()) {
            return true;
        }
        let metadata: Value = serde_json::from_str(&record.metadata).unwrap_or_default();
        filters.iter().all(|(wanted, members)| {
            let mut found = members
                .iter()
                .filter_map(|member| metadata[*member].as_str());
            wanted
                .as_ref()
                .is_none_or(|wanted| found.any(|found| found == wanted))
        })
    }

    fn write(&self, out: &mut impl io::Write, record: &Record) -> io::Result<()> {
        match self.json {
            true => serde_json::to_writer(&mut *out, record)?,
            false => out.write_all(line(record).as_bytes())?,
        }
        out.write_all(b"\n")
    }
}

/// An event in one line: time, who, what, how it ended, and why.
fn line(record: &Record) -> String {
    let metadata: Value = serde_json::from_str(&record.metadata).unwrap_or_default();
    let text = |member: &str| metadata[member].as_str().unwrap_or_default();
    let or = |one: &str, other: &str| {
        if one.is_empty() {
            other.to_owned()
        } else {
            one.to_owned()
        }
    };
    let who = or(text("principal"), "-");
    let what = or(&or(text("tool_name"), text("item")), text("backend"));
    let status = match record.status {
        EventStatus::Success => "success",
        EventStatus::Failure => "failure",
        EventStatus::Pending => "pending",
    };
    let arguments = metadata["arguments"].as_object();
    let values = arguments
        .into_iter()
        .flatten()
        .filter_map(|(name, argument)| {
            let value = argument["value"].as_str()?;
            Some(format!("{name}={value}"))
        });
    let values: Vec<String> = values.collect();
    let end = or(text("outcome"), status);
    let end = match metadata["count"].as_u64() {
        Some(count) if record.event_type == kind::REQUEST => format!("{end} ({count} times)"),
        _ => end,
    };
    let why = or(&or(text("denial"), text("reason")), text("error"));
    let from = [text("client"), text("address")].join(" ");
    let fields = [
        format!("{:.3}", record.timestamp),
        record.event_type.to_string(),
        who,
        what,
        values.join(" "),
        end,
        from.trim().to_owned(),
        why,
    ];
    let fields = fields.iter().filter(|field| !field.is_empty());
    let line: Vec<&str> = fields.map(String::as_str).collect();
    // A name from outside must not move the cursor of a terminal.
    let line = line.join("  ");
    line.chars()
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

/// Reads the events of a store in their order.
struct Reader {
    store: Box<dyn Store>,
    /// The position of the last event.
    last: i64,
    since: i64,
    /// The positions that are read again, since another gateway may have added events between them.
    seen: VecDeque<i64>,
    is_seen: HashSet<i64>,
}

impl Reader {
    fn open(location: &StoreLocation, since: Option<Timestamp>) -> Result<Self, Failure> {
        let missing = match location {
            StoreLocation::Memory => {
                let text = "the gateway keeps its events in memory: set `events.store` to a file or a database";
                Some(text.to_owned())
            }
            StoreLocation::File(path) if !path.exists() => {
                Some(format!("there is no event log at {}", path.display()))
            }
            _ => None,
        };
        match missing {
            Some(text) => Err(Failure::Store(text)),
            None => Ok(Self {
                store: location.open()?,
                last: i64::MIN,
                since: since.map_or(i64::MIN, Timestamp::as_microsecond),
                seen: VecDeque::new(),
                is_seen: HashSet::new(),
            }),
        }
    }

    /// The next events; none if there are no more yet.
    fn page(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            // With several gateways an event may become visible after later ones.
            let again = self.seen.front().map_or(self.last, |first| first - 1);
            let limit = PAGE + self.seen.len();
            let found = self.store.read(again, self.since, limit)?;
            let is_last = found.len() < limit;
            let mut page = Vec::new();
            for (position, record) in found {
                if !self.is_seen.insert(position) {
                    continue;
                }
                self.last = self.last.max(position);
                self.seen.push_back(position);
                page.push(record);
            }
            self.seen.make_contiguous().sort_unstable();
            while self.seen.len() > PAGE {
                if let Some(old) = self.seen.pop_front() {
                    self.is_seen.remove(&old);
                }
            }
            if is_last || !page.is_empty() {
                return Ok(page);
            }
        }
    }
}

fn since(text: &str) -> Result<Timestamp, String> {
    let since = Since::parse(text.trim());
    let since =
        since.ok_or("must be an age such as 24h, or a time such as 2026-01-31T12:00:00Z")?;
    Ok(since.from(Timestamp::now()))
}

fn status(text: &str) -> Result<EventStatus, String> {
    let status = serde_json::from_value(text.into());
    status.map_err(|_| "must be success, failure or pending".to_owned())
}
