//! The way to go on with a task after its process has ended.

use serde::{Deserialize, Serialize};

/// The way to go on with a task: its tool, and what that needs to find the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resumption {
    pub(super) tool: String,
    pub(super) reference: String,
}
