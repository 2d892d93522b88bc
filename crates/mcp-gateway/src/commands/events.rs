//! `mcp-gateway events`: prints, follows and exports the event log of a gateway, which may be running.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use gateway_store::events::{
    EventReader, EventStatus, Outcome, Query, Record, StoreError, StoreFault, StoreLocation,
    TraceId, kind, parse_trace,
};
use serde_json::Value;
use upstream::text::visible;
use upstream::time::{Since, Timestamp};

use super::{Failure, load, require_store};
use crate::config::Options;

/// Events that are read at a time.
const PAGE: usize = 1_000;

const UNREADABLE: &str = "the event log cannot be read";

/// Told where no event names the text.
const NOT_FOUND: &str = "no event names it. The log has the values of arguments only where `record` in the table [events] \
                         names them, such as `record = [\"docker__*.container\"]`";

/// The time between two looks for new events.
const INTERVAL: Duration = Duration::from_millis(300);

/// Prints the newest events of a gateway that match, or all with `--all`.
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
    /// The number of events, at most 10,000.
    #[arg(long, short = 'n', default_value_t = 100, value_name = "NUMBER")]
    limit: usize,
    /// Age such as 15m, 24h or 7d, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only requests of this principal.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only requests of this view.
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Only of this backend.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only of this tool, prompt or resource.
    #[arg(long, value_name = "NAME")]
    item: Option<String>,
    /// Only events of this type, such as gateway.tool_call.
    #[arg(long = "type", value_name = "TYPE", value_parser = event_type)]
    event_type: Option<String>,
    /// Only with this status: success, failure or pending.
    #[arg(long, value_parser = status)]
    status: Option<EventStatus>,
    /// Only with this outcome: ok, denied, failed, timed_out or cancelled.
    #[arg(long, value_parser = outcome)]
    outcome: Option<Outcome>,
    /// Only failures of this kind, such as timeout or tool_error.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only events that name this, such as a container in a recorded argument: who did what to it, and by which rule.
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Only of the request with this id.
    #[arg(long, value_name = "ID", value_parser = trace)]
    trace: Option<TraceId>,
    /// Only of the gateway with this id, where several share the store.
    #[arg(long, value_name = "ID")]
    replica: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(events: Events) -> ExitCode {
    let complain = |text: String| drop(writeln!(io::stderr(), "{text}"));
    let found = load(events.options.clone()).and_then(|config| {
        require_store(&config.events)?;
        Ok(config.events)
    });
    let location = match found {
        Ok(location) => location,
        Err(Failure(code, text)) => {
            complain(text);
            return ExitCode::from(code);
        }
    };
    // Such as `head`, which has read enough.
    let has_read_enough = |error: &io::Error| matches!(error.kind(), io::ErrorKind::BrokenPipe);
    match events.print(&location) {
        Err(failure) if !failure.downcast_ref().is_some_and(has_read_enough) => {
            complain(format!("{failure:#}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

impl Events {
    fn print(&self, location: &StoreLocation) -> anyhow::Result<()> {
        let mut reader = Reader::open(location, self.query())?;
        let mut out = BufWriter::new(io::stdout().lock());
        if self.all {
            loop {
                let page = reader.page().context(UNREADABLE)?;
                if page.is_empty() {
                    break;
                }
                self.write_all(&mut out, &page)?;
            }
        } else {
            let newest = reader.newest(self.limit).context(UNREADABLE)?;
            self.write_all(&mut out, &newest)?;
            if newest.is_empty() && self.about.is_some() {
                writeln!(io::stderr(), "{NOT_FOUND}")?;
            }
        }
        out.flush()?;
        if !self.follow {
            return Ok(());
        }
        loop {
            std::thread::sleep(INTERVAL);
            match reader.page() {
                Ok(page) => self.write_all(&mut out, &page)?,
                // The gateway has begun a new file.
                Err(error) if error.fault == StoreFault::Replaced => {
                    reader = Reader::open(location, reader.query)?;
                }
                Err(error) => return Err(error).context(UNREADABLE),
            }
            out.flush()?;
        }
    }

    fn query(&self) -> Query {
        Query {
            event_type: self.event_type.clone(),
            status: self.status,
            principal: self.principal.as_deref().map(Into::into),
            backend: self.from.clone(),
            item: self.item.clone(),
            outcome: self.outcome,
            kind: self.kind.clone(),
            about: self.about.clone(),
            since: self.since,
            view: self.view.as_deref().map(Into::into),
            trace_id: self.trace,
            replica: self.replica.clone(),
            ..Query::default()
        }
    }

    fn write_all(&self, out: &mut impl io::Write, records: &[Record]) -> io::Result<()> {
        for record in records {
            match self.json {
                true => serde_json::to_writer(&mut *out, record)?,
                false => out.write_all(line(record).as_bytes())?,
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// An event in one line: time, who, what, how it ended, why, the rule that has allowed it, and who has approved it.
fn line(record: &Record) -> String {
    let metadata: Value = serde_json::from_str(&record.metadata).unwrap_or_default();
    let text = |member: &str| metadata[member].as_str().unwrap_or_default();
    let first = |members: &[&str]| {
        let mut texts = members.iter().map(|member| text(member));
        let found = texts.find(|text| !text.is_empty());
        found.unwrap_or_default().to_owned()
    };
    let status = format!("{:?}", record.status).to_lowercase();
    let arguments = metadata["arguments"].as_object();
    let values = arguments
        .into_iter()
        .flatten()
        .filter_map(|(name, argument)| {
            let value = argument["value"].as_str()?;
            Some(format!("{name}={value}"))
        });
    let values: Vec<String> = values.collect();
    let mut end = metadata["outcome"].as_str().unwrap_or(&status).to_owned();
    if let Some(count) = metadata["count"].as_u64()
        && record.event_type != kind::EVENTS_DROPPED
    {
        end += &format!(" ({count} times)");
    }
    let approved = metadata["approved_by"].as_str();
    let approved = approved.map(|by| format!("approved by {by}"));
    let from = [text("client"), text("address")].join(" ");
    let fields = [
        format!("{:.3}", record.timestamp),
        record.event_type.to_string(),
        metadata["principal"].as_str().unwrap_or("-").to_owned(),
        first(&["tool_name", "item", "backend"]),
        values.join(" "),
        end,
        from.trim().to_owned(),
        first(&["denial", "reason", "error"]),
        text("allowed_by").to_owned(),
        approved.unwrap_or_default(),
    ];
    let fields = fields.iter().filter(|field| !field.is_empty());
    let line: Vec<&str> = fields.map(String::as_str).collect();
    // A name from outside must not move the cursor of a terminal.
    let line = line.join("  ").replace(char::is_control, "?");
    visible(&line)
}

/// Reads the events of a store in their order.
struct Reader {
    events: EventReader,
    query: Query,
    /// The last positions, after the first of which is read again: another gateway may have added events between them.
    seen: BTreeSet<i64>,
}

impl Reader {
    fn open(location: &StoreLocation, query: Query) -> anyhow::Result<Self> {
        Ok(Self {
            events: EventReader::open(location).context(UNREADABLE)?,
            query,
            seen: BTreeSet::new(),
        })
    }

    /// The newest events; the next ones come after them.
    fn newest(&mut self, count: usize) -> Result<Vec<Record>, StoreError> {
        // Also without any of them, those after the last one come next.
        self.query.limit = Some(count.max(1));
        let found = self.events.find(&self.query)?;
        let mut newest = self.unseen(found);
        newest.drain(..newest.len().saturating_sub(count));
        Ok(newest)
    }

    /// Notes the positions of these events, and returns those that were not seen before.
    fn unseen(&mut self, mut found: Vec<Record>) -> Vec<Record> {
        found.retain(|record| self.seen.insert(record.position));
        while self.seen.len() > PAGE {
            self.seen.pop_first();
        }
        found
    }

    /// The next events; none if there are no more yet.
    fn page(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            let again = self.seen.first().map_or(i64::MIN, |first| first - 1);
            let limit = PAGE + self.seen.len();
            self.query.limit = Some(limit);
            let found = self.events.read(again, &self.query)?;
            let is_last = found.len() < limit;
            let page = self.unseen(found);
            if is_last || !page.is_empty() {
                return Ok(page);
            }
        }
    }
}

fn since(text: &str) -> Result<Timestamp, String> {
    let expected = "must be an age such as 24h, or a time such as 2026-01-31T12:00:00Z";
    let since = Since::parse(text.trim()).ok_or(expected)?;
    Ok(since.from(Timestamp::now()))
}

fn event_type(text: &str) -> Result<String, String> {
    kind::check(text).map(|()| text.to_owned())
}

fn trace(text: &str) -> Result<TraceId, String> {
    parse_trace(text).ok_or_else(|| "must be a UUID or 32 hexadecimal digits".to_owned())
}

fn status(text: &str) -> Result<EventStatus, String> {
    let status = serde_json::from_value(text.into());
    status.map_err(|_| "must be success, failure or pending".to_owned())
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let outcome = serde_json::from_value(text.into());
    outcome.map_err(|_| "must be ok, denied, failed, timed_out or cancelled".to_owned())
}
