//! Reads the `data` that n8n saves of an execution: its nodes, their items and errors. Sends
//! nothing.

mod data;
mod failure;

pub use data::{MAX_MESSAGE, NodeRow, StoredFile, Trace, drop_error_stack, node_rows, shortened};
pub use failure::{Cause, NodeFailure, find_failure, find_handled};
