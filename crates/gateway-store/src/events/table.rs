//! The table of events: writes and finds them.
//!
//! In a file the id of an event is its timestamp in microseconds, or the last id plus one if that is greater. So ids
//! are unique, ascending and never below the timestamp, and every index ends with the order in which events are found
//! and removed. In PostgreSQL, where several gateways write, ids ascend with the time of writing, and the order is that
//! of the timestamps.

use std::collections::BTreeMap;
use std::sync::Arc;

use upstream::time::Timestamp;

use super::event::{EventStatus, Outcome, kind, short};
use super::record::{COLUMNS, Columns, Record, SOURCE};
use super::trace::TraceId;
use crate::database::{Connection, Row, StoreError, StoreFault, StoreLocation, Value};

/// Limit for the events of one query.
pub(crate) const MAX_QUERY_LIMIT: usize = 10_000;

/// Changes the number of events of a principal, and their bytes.
const ADD_USAGE: &str = "
    insert into mcp_usage (principal, events, bytes) values ($1, $2, $3)
    on conflict (principal) do update set
        events = mcp_usage.events + excluded.events, bytes = mcp_usage.bytes + excluded.bytes
";

/// Adds to the event of equal denials. That of several gateways is of none of them.
const COUNT: &str = "
    update mcp_events set count = count + $1, replica = case when replica = $2 then replica end where denial = $3
";

const SELECT: &str =
    "select id, timestamp, trace_id, event_type, status, replica, metadata, count from mcp_events";

/// The number of events of each principal, and their bytes. In the order in which all gateways change them.
pub(super) type Usage = BTreeMap<Box<str>, (i64, i64)>;

/// A query. A filter that is `None` matches all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The id of one request.
    pub trace_id: Option<TraceId>,
    /// The exact type.
    pub event_type: Option<String>,
    /// The exact status.
    pub status: Option<EventStatus>,
    /// Only requests of the token with this name.
    pub principal: Option<Arc<str>>,
    /// Only requests of the view with this name.
    pub view: Option<Arc<str>>,
    /// Only events about this backend.
    pub backend: Option<String>,
    /// Only events about the tool, prompt or resource with this name.
    pub item: Option<String>,
    /// Only requests with this end.
    pub outcome: Option<Outcome>,
    /// Only failures of this kind.
    pub kind: Option<String>,
    /// Only events in which this text stands: in a recorded argument, in a name, or in a reason.
    pub about: Option<String>,
    /// Only events of the gateway with this id, where several share the store.
    pub replica: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// A denied request counts as one that has failed; see [`Record::hide_denial`].
    pub hides_denials: bool,
    /// Number of events: the newest ones that match. 100 if it is not set, and never more than 10,000.
    pub limit: Option<usize>,
}

/// The conditions of a statement, and their values.
#[derive(Default)]
struct Conditions {
    all: Vec<String>,
    values: Vec<Value>,
    has_index: bool,
}

impl Conditions {
    /// Adds a condition, in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let parameter = format!("${}", self.values.len());
        self.all.push(condition.replace('?', &parameter));
    }

    /// Adds the condition that `column` has this value. The first one of a statement chooses its index: without
    /// statistics a database may choose one that matches half of all events.
    fn equals(&mut self, column: &str, value: Option<&str>) {
        let Some(value) = value.map(short) else {
            return;
        };
        match std::mem::replace(&mut self.has_index, true) {
            false => self.add(&format!("{column} = ?"), value),
            true => self.add(&format!("coalesce({column}, '') = ?"), value),
        }
    }

    /// Chooses the index of `column`, which leaves out the value that most events have, unless one is chosen.
    fn choose_index_without(&mut self, column: &str, usual: &str) {
        if !std::mem::replace(&mut self.has_index, true) {
            self.all.push(format!("{column} <> {usual}"));
        }
    }
}

impl Query {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(100).min(MAX_QUERY_LIMIT)
    }

    /// The conditions, the most selective one first.
    fn conditions(&self, connection: &Connection) -> Conditions {
        let mut found = Conditions::default();
        if let Some(trace) = self.trace_id {
            found.add("trace_id = ?", Value::Bytes(trace.into_bytes().to_vec()));
            found.has_index = true;
        }
        found.equals("item", self.item.as_deref());
        found.equals("kind", self.kind.as_deref());
        found.equals("principal", self.principal.as_deref());
        found.equals("view", self.view.as_deref());
        found.equals("backend", self.backend.as_deref());
        if let Some(event_type) = &self.event_type {
            if event_type != kind::TOOL_CALL {
                found.choose_index_without("event_type", "'gateway.tool_call'");
            }
            found.add("event_type = ?", short(event_type));
        }
        if self.outcome.is_some_and(|outcome| outcome != Outcome::Ok) {
            found.choose_index_without("outcome", "'ok'");
        }
        match self.outcome {
            Some(Outcome::Failed) if self.hides_denials => {
                found.all.push("outcome in ('failed', 'denied')".to_owned());
            }
            Some(Outcome::Denied) if self.hides_denials => found.all.push("1 = 0".to_owned()),
            Some(outcome) => found.add("outcome = ?", outcome.name()),
            None => {}
        }
        if let Some(status) = self.status {
            if status != EventStatus::Success {
                found.choose_index_without("status", "0");
            }
            found.add("status = ?", i64::from(status.number()));
        }
        found.has_index = true;
        found.equals("replica", self.replica.as_deref());
        if let Some(about) = &self.about {
            let (condition, pattern) = match connection.is_shared() {
                true => (
                    "metadata ~ ?",
                    about_pattern(about, "", |char| format!("\\{char}")),
                ),
                false => (
                    "metadata glob ?",
                    about_pattern(about, "*", |char| match char {
                        '*' | '?' | '[' => format!("[{char}]"),
                        other => other.to_string(),
                    }),
                ),
            };
            found.add(condition, pattern.as_str());
        }
        if let Some(since) = self.since {
            // No id in a file is below its timestamp, so the condition on the id only ends the walk earlier.
            if !connection.is_shared() {
                found.add("id >= ?", since.as_microsecond());
            }
            found.add("timestamp >= ?", since.as_microsecond());
        }
        found
    }
}

/// The pattern of a text that stands in JSON: not as a part of a longer name, such as web-7 in web-70. `any` stands for the
/// rest of the JSON.
fn about_pattern(about: &str, any: &str, mark: impl Fn(char) -> String) -> String {
    let quoted = serde_json::Value::from(about).to_string();
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let edge = |char: Option<char>| match char.is_some_and(char::is_alphanumeric) {
        true => "[^a-zA-Z0-9_-]",
        false => "",
    };
    let (before, after) = (edge(inner.chars().next()), edge(inner.chars().last()));
    let mut pattern = [any, before].concat();
    for char in inner.chars() {
        match char.is_ascii_punctuation() {
            true => pattern.push_str(&mark(char)),
            false => pattern.push(char),
        }
    }
    pattern + after + any
}

/// Stores all of `records`, or none. A denial that is there is counted.
pub(crate) fn append(connection: &mut Connection, records: &[Record]) -> Result<(), StoreError> {
    if records.is_empty() {
        return Ok(());
    }
    let is_shared = connection.is_shared();
    let first = if is_shared { "replica" } else { "id" };
    let insert = format!(
        "insert into mcp_events
            (timestamp, trace_id, event_type, status, source, bytes, metadata, denial, count, {}, {first})
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
            on conflict (denial) where denial is not null do nothing",
        COLUMNS.join(", ")
    );
    let replica = format!("{:08x}", mcp_serve::process_id());
    let mut records: Vec<&Record> = records.iter().collect();
    if is_shared {
        // Two gateways that wait for each other's denials would wait without end.
        records.sort_by_key(|record| &record.denial);
    }
    let store = |connection: &mut Connection| {
        let mut id = 0;
        if !is_shared {
            let newest = connection.query("select coalesce(max(id), 0) from mcp_events", &[])?;
            id = newest.first().map_or(0, |row| row.integer(0));
        }
        let rows = records.iter().map(|record| {
            let micros = record.timestamp.as_microsecond();
            id = micros.max(id.saturating_add(1));
            let mut row = vec![
                Value::Integer(micros),
                Value::Bytes(record.trace_id.into_bytes().to_vec()),
                Value::from(&*record.event_type),
                Value::Integer(record.status.number().into()),
                Value::from(SOURCE),
                Value::Integer(record.bytes()),
                Value::from(record.metadata.as_str()),
                Value::Text(record.denial.clone()),
                Value::Integer(record.count),
            ];
            row.extend(record.columns.clone().map(Value::Text));
            row.push(match is_shared {
                true => Value::from(replica.as_str()),
                false => Value::Integer(id),
            });
            row
        });
        let rows: Vec<Vec<Value>> = rows.collect();
        let stored = connection.execute(&insert, &rows)?;
        let (mut usage, mut counted) = (Usage::new(), Vec::new());
        for (record, stored) in records.iter().zip(stored) {
            if stored == 0 {
                let (count, denial) = (record.count.into(), Value::Text(record.denial.clone()));
                counted.push(vec![count, Value::from(replica.as_str()), denial]);
                continue;
            }
            let principal = record.columns[0].clone().unwrap_or_default();
            let (events, sum) = usage.entry(principal).or_default();
            (*events, *sum) = (*events + 1, *sum + record.bytes());
        }
        connection.execute(COUNT, &counted)?;
        add_usage(connection, &usage)?;
        Ok(true)
    };
    connection.in_transaction(false, store).map(drop)
}

/// Adds to the numbers of each principal.
pub(super) fn add_usage(connection: &mut Connection, usage: &Usage) -> Result<(), StoreError> {
    let rows = usage.iter().map(|(principal, (events, bytes))| {
        let principal = Value::Text(Some(principal.clone()));
        vec![principal, Value::Integer(*events), Value::Integer(*bytes)]
    });
    let rows: Vec<Vec<Value>> = rows.collect();
    connection.execute(ADD_USAGE, &rows).map(drop)
}

/// Returns the newest events that match, oldest first.
pub(super) fn find(connection: &mut Connection, query: &Query) -> Result<Vec<Record>, StoreError> {
    let (sql, values) = newest(connection, query);
    let rows = connection.query(&sql, &values)?;
    rows.iter().rev().map(record).collect()
}

/// The statement that finds the newest events that match: it walks backwards along one index, or along all events.
pub(crate) fn newest(connection: &Connection, query: &Query) -> (String, Vec<Value>) {
    let Conditions { all, values, .. } = query.conditions(connection);
    let order = match connection.is_shared() {
        true => "timestamp desc, id desc",
        false => "id desc",
    };
    let sql = [SELECT, &clause(&all), " order by ", order].concat();
    (format!("{sql} limit {}", query.limit()), values)
}

fn clause(conditions: &[String]) -> String {
    match conditions {
        [] => String::new(),
        all => format!(" where {}", all.join(" and ")),
    }
}

fn record(row: &Row) -> Result<Record, StoreError> {
    let trace = row.bytes(2).try_into();
    let trace = trace.map_err(|_| StoreError::unavailable("a trace id does not have 16 bytes"))?;
    let text = |at| row.text(at).unwrap_or_default().to_owned();
    let (mut metadata, count) = (text(6), row.integer(7));
    if count > 1 && metadata.pop() == Some('}') {
        metadata += &format!(",\"count\":{count}}}");
    }
    Ok(Record {
        position: row.integer(0),
        timestamp: Timestamp::from_microsecond(row.integer(1)).unwrap_or_default(),
        trace_id: TraceId::from_bytes(trace),
        event_type: text(3).into(),
        status: EventStatus::from_number(row.integer(4)),
        replica: row.text(5).map(ToOwned::to_owned),
        columns: Columns::default(),
        denial: None,
        count,
        metadata,
    })
}

/// Reads the events of a database through a connection of its own, so that no query delays a write. Blocks.
pub struct EventReader {
    location: StoreLocation,
    /// That of the database, if it is in memory.
    name: String,
    /// `None` before the first query, and after a failure.
    connection: Option<Connection>,
}

impl EventReader {
    pub(crate) fn new(location: StoreLocation, name: String) -> Self {
        Self {
            location,
            name,
            connection: None,
        }
    }

    /// Opens the database, which is a file or shared.
    ///
    /// # Errors
    /// When it cannot be opened, or has another version.
    pub fn open(location: &StoreLocation) -> Result<Self, StoreError> {
        let mut reader = Self::new(location.clone(), String::new());
        reader.with(|_| Ok(()))?;
        Ok(reader)
    }

    /// Returns the newest events that match, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
        let was_open = self.connection.is_some();
        let mut search = || self.with(|connection| find(connection, query));
        // An open connection may have ended since the query before.
        match search() {
            Err(error) if was_open && error.fault != StoreFault::Corrupt => search(),
            found => found,
        }
    }

    /// Returns the events that match after the position `after`, by their positions. There may be more of them if as
    /// many as the limit of the query are returned.
    ///
    /// # Errors
    /// When they cannot be read, or another database is in the place of this one.
    pub fn read(&mut self, after: i64, query: &Query) -> Result<Vec<Record>, StoreError> {
        self.with(|connection| {
            let mut conditions = query.conditions(connection);
            conditions.add("id > ?", after);
            let (limit, matching) = (query.limit(), clause(&conditions.all));
            let sql = format!("{SELECT}{matching} order by id limit {limit}");
            let rows = connection.query(&sql, &conditions.values)?;
            rows.iter().map(record).collect()
        })
    }

    fn with<T>(
        &mut self,
        read: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let mut connection = self.location.open(&self.name)?;
                connection.allow_searches()?;
                self.connection.insert(connection)
            }
        };
        let found = connection.verify().and_then(|()| read(connection));
        if found.is_err() {
            self.connection = None;
        }
        found
    }
}
