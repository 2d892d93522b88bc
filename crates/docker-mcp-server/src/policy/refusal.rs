//! The words with which something is refused.

use mcp_core::tool::{ToolError, ToolErrorKind};

/// What this server was told not to do.
pub(crate) fn forbidden(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Forbidden, text)
}
