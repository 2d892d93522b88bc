//! Reads the `data` that n8n saves of an execution: its nodes, their items and errors. Sends
//! nothing.

mod cause;
mod data;
mod failure;
mod file;
mod items;
mod lost;
mod node_rows;

pub use cause::Cause;
pub use data::{MAX_MESSAGE, ResultData, Trace};
pub use failure::{NodeFailure, find_failure, find_handled};
pub use file::StoredFile;
pub use items::{ItemLimits, drop_error_stack, shortened};
pub use lost::{Loss, find_loss};
pub use node_rows::{NodeRow, NodeSelection, node_rows};
