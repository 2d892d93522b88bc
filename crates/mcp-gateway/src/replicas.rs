//! Several gateways that serve one endpoint on one PostgreSQL.
//!
//! * [`report`]: what each of them tells the others about its backends.
//! * [`restarts`]: restarts of a backend at all of them.
//! * [`summary`]: the backends of all of them together.

pub(crate) mod report;
pub(crate) mod restarts;
pub(crate) mod summary;
