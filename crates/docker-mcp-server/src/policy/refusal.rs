//! The words with which something is refused.

use mcp_core::tool::{ToolError, ToolErrorKind};

/// A change that the operator's options forbid.
pub(crate) fn forbidden(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Forbidden, text)
}
