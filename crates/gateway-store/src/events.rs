//! The event log, for operators and for `get_events`. It never delays a call.
//!
//! * [`Event`] is a new event, [`Record`] its stored form and the form of `get_events` (seed 003).
//! * [`EventLog`] takes events without waiting and passes them to a thread that writes in batches.
//! * [`Store`] keeps them: SQLite in one file, or PostgreSQL for several gateways together.
//!
//! A failing store does not affect calls: events wait in a bounded queue, more events are counted and
//! dropped, the log is reported as degraded, and writing is tried again with a backoff.

mod argument_types;
mod clock;
mod denials;
mod event;
mod location;
mod log;
mod postgres;
mod queue;
mod record;
mod shares;
mod sqlite;
mod store;
mod trace;
mod writer;

pub use self::argument_types::{ArgumentTypes, KnownArguments, RecordedArguments};
pub use self::event::{Event, EventStatus, FinishedRequest, Outcome, kind};
pub(crate) use self::location::Database;
pub use self::location::StoreLocation;
pub use self::log::EventLog;
pub(crate) use self::postgres::{Notifications, PostgresConnection, connect_to_postgres, in_time};
pub use self::queue::LogHealth;
pub use self::record::Record;
pub(crate) use self::sqlite::SqliteDatabase;
pub use self::store::{OpenStore, Query, Retention, Store, StoreError, StoreFault};
pub use self::trace::TraceId;

#[cfg(test)]
mod tests;
