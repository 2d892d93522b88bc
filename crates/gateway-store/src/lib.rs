//! The database of the gateway: a SQLite file, or PostgreSQL where several gateways serve one endpoint.
//!
//! * [`actor`]: its thread, and [`Database`], the handle of a running one.
//! * [`database`]: its connection and its tables, and the queue of the thread.
//! * [`events`]: the event log. It never delays a call.
//! * [`state`]: entries with a kind and a key that outlive the gateway, such as pinned tools and approvals.
//! * [`shared`]: the sessions and tasks of the gateways that share the database.
//! * [`search`]: an index of tools in memory, for full-text search.
//!
//! Knows no backends and no configuration: the gateway says where the database is, and what goes into it.

mod actor;
pub mod database;
pub mod events;
pub mod search;
pub mod shared;
pub mod state;

pub use self::actor::Database;
