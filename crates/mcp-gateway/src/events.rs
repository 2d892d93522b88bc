//! The event log: what happened, for people and for `get_events`, and never at a call's expense.
//!
//! * [`Event`] is what happened, [`Record`] how it is kept and shown (the format of seed 003).
//! * [`Log`] takes events without waiting and hands them to a thread that writes them in batches.
//! * [`Store`] is where they go: SQLite in one file, or PostgreSQL for several gateways together.
//!
//! Whatever becomes of the store, a call does not notice: events wait in a bounded queue, the excess
//! is counted and dropped, the state is shown as degraded, and writing goes on when it can.

mod event;
mod location;
mod log;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod queue;
mod record;
mod sqlite;
mod store;
mod trace;
mod writer;

pub(crate) use self::event::{Call, Event, Outcome, Status, kind};
pub(crate) use self::location::StoreLocation;
pub(crate) use self::log::Log;
pub(crate) use self::query::Query;
pub(crate) use self::record::Record;
pub(crate) use self::store::{Failure, Fault, Retention};
pub(crate) use self::trace::TraceId;
pub(crate) use upstream::time::Timestamp;

#[cfg(test)]
mod tests;
