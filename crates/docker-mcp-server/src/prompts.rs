//! Prompts for people: the steps of an experienced operator, filled with the current state of the
//! engine.

mod clean_up;
mod review_project;
mod troubleshoot;

use mcp_core::prompt::PromptSet;

use crate::docker::Docker;

/// All prompts, in the order in which they are listed.
pub(crate) fn all() -> PromptSet<Docker> {
    PromptSet::new()
        .with::<troubleshoot::TroubleshootContainer>()
        .with::<review_project::ReviewComposeProject>()
        .with::<clean_up::CleanUp>()
}
