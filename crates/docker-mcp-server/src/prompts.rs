//! What a person can ask for by name: the steps of an operator who knows Docker, with what this
//! engine says right now already in them.

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
