//! Prompts: how to give work to an agent, and how to review its result.

mod fix_issue;
mod review_change;
mod source;
mod write_tests;

use mcp_core::prompt::PromptSet;

use crate::OpenHands;

/// All prompts, in the order of the list.
pub(crate) fn all() -> PromptSet<OpenHands> {
    PromptSet::new()
        .with::<fix_issue::FixIssue>()
        .with::<review_change::ReviewChange>()
        .with::<write_tests::WriteTests>()
}
