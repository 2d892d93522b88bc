//! The event log, for operators and for `get_events`. It never delays a call.
//!
//! * [`Event`] is a new event, [`Record`] its stored form and the form of `get_events` (seed 003).
//! * [`EventLog`] takes events without waiting; the thread of the database writes them in batches.
//! * `table` writes and finds them, `retain` removes old ones.

mod argument_types;
mod denials;
mod event;
mod log;
mod own_texts;
mod record;
mod retain;
mod table;
mod trace;

pub use self::argument_types::{ArgumentTypes, KnownArguments, RecordedArguments};
pub(crate) use self::denials::Denials;
pub use self::event::{Event, EventStatus, FinishedRequest, Outcome, RequestFailure, kind};
pub use self::log::EventLog;
pub use self::own_texts::OwnTexts;
pub use self::record::Record;
pub use self::retain::Retention;
pub(crate) use self::retain::retain;
pub(crate) use self::table::append;
pub use self::table::{EventReader, Query};
pub use self::trace::{TraceId, parse_trace, trace_of};
pub use crate::database::{DatabaseHealth, StoreError, StoreFault, StoreLocation};

#[cfg(test)]
pub(crate) mod tests;
