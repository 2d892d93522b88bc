//! What a person can ask for by name: the steps of somebody who knows n8n, with what this n8n says
//! right now already in them.

mod build;
mod debug;
mod review;

use mcp_core::prompt::PromptSet;

use crate::service::N8n;

/// All prompts, in the order in which they are listed.
pub(crate) fn all() -> PromptSet<N8n> {
    PromptSet::new()
        .with::<build::BuildWorkflow>()
        .with::<debug::DebugExecution>()
        .with::<review::ReviewWorkflow>()
}
