//! What a person can ask for by name: how to hand work to an agent so that it can be done well, and
//! how to judge what came of it.

mod fix_issue;
mod review_change;
mod source;
mod write_tests;

use mcp_core::prompt::PromptSet;

use crate::OpenHands;

/// All prompts, in the order in which they are listed.
pub(crate) fn all() -> PromptSet<OpenHands> {
    PromptSet::new()
        .with::<fix_issue::FixIssue>()
        .with::<review_change::ReviewChange>()
        .with::<write_tests::WriteTests>()
}
