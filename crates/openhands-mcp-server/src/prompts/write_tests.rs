//! `write_tests`.

use mcp_core::prompt::{Prompt, PromptMessage};
use mcp_core::tool::{Call, Content, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::source::{FENCE, code_source};
use crate::OpenHands;

/// Have an agent write tests that would find real defects.
#[derive(Deserialize, JsonSchema)]
pub(super) struct WriteTests {
    /// The files, functions or behaviour to test.
    subject: String,
    /// Git URL of the code.
    repository: Option<String>,
    /// Its branch.
    branch: Option<String>,
}

impl Prompt for WriteTests {
    const NAME: &'static str = "write_tests";
    type Service = OpenHands;

    async fn messages(self, _: &OpenHands, _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
        let source = code_source(self.repository, self.branch)?;
        let subject = self.subject;
        let text = format!(
            "Have an OpenHands agent write tests for this:\n\n{FENCE}\n{subject}\n{FENCE}\n\n\
             1. Call run_task. The agent sees nothing of our conversation, so put all that matters \
             into `task`: what to test, how it should behave, and how the tests are run if we know \
             it. {source} Give it an `idempotency_key`.\n\
             2. Tell the agent in `task`: use the test framework and the style that are there; \
             test behaviour that callers see, not how it is made; cover the ordinary case, the \
             edges (empty, one, many, too large, not ASCII), and every error that callers can \
             meet; no sleeps, no network, no order between tests; change only tests. Where a test \
             shows a defect, leave the code as it is and report the defect.\n\
             3. Have it prove the tests: run them, then break the code in one place for each group \
             of tests, see a test fail, and put the code back.\n\
             4. While the status is running or queued, call wait_task. On waiting_for_confirmation \
             show me what it wants to do and let me decide.\n\
             5. Read get_task_changes: only tests may have changed, and every one must be able to \
             fail. Send the agent what is missing with send_message, at most twice.\n\
             6. Report what is tested, what is not and why, and the defects that were found, with \
             the task_id."
        );
        Ok(vec![PromptMessage::user(Content::text(text))])
    }
}
