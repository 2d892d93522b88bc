//! `build_workflow`

use mcp_core::prompt::{Prompt, PromptMessage};
use mcp_core::tool::{Call, Content, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::service::N8n;

/// Build an n8n workflow step by step: plan, nodes, check, test, hand over.
#[derive(Deserialize, JsonSchema)]
pub(super) struct BuildWorkflow {
    /// What the workflow is to do, and when.
    goal: String,
}

impl Prompt for BuildWorkflow {
    const NAME: &'static str = "build_workflow";
    type Service = N8n;

    async fn messages(self, n8n: &N8n, _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
        let last = if n8n.api.policy.requires_review() {
            "Do not try to activate it: a person reviews it in n8n first. Say what to look at."
        } else {
            "Activate it only after I agree; then run it once with run_workflow and show the result."
        };
        let text = format!(
            "Build an n8n workflow for this goal:\n\n{goal}\n\n\
             1. Look with list_workflows whether one does that already or could be extended.\n\
             2. Plan in a few lines: the trigger, the nodes, what flows between them, which \
             credentials are needed, what happens when a step fails. Ask me where the goal leaves \
             something open.\n\
             3. Find each node with list_nodes and read its parameters with get_node; do not guess \
             them. Prefer a node for the service, then HTTP Request, and Code only where nothing \
             else does it.\n\
             4. Use credentials that exist (list_credentials); never put a secret into a \
             parameter. Give webhooks authentication unless I want them open.\n\
             5. Create the workflow inactive, with names that say what each node does and a sticky \
             note that says what it is for. Then validate_workflow, and mend what it reports.\n\
             6. {last}\n\n\
             Tools that are missing here are in toolsets that the server was not started with \
             (--toolsets authoring,nodes,credentials): say so instead of working around it.",
            goal = self.goal
        );
        Ok(vec![PromptMessage::user(Content::text(text))])
    }
}
