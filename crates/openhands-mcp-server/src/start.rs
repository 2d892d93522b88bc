//! From the caller's words to a running task.

use std::collections::BTreeMap;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::OpenHands;
use crate::api::{Conversation, NewConversation};
use crate::task_id::TaskId;
use crate::workspace::FileName;

/// Tag of a conversation that was started with a key: what it was started for.
const PURPOSE_TAG: &str = "mcppurpose";

/// What a caller wants done.
pub(crate) struct Order {
    /// Never empty.
    pub(crate) task: String,
    /// A file to work on and its content.
    pub(crate) file: Option<(FileName, String)>,
    /// The same key is the same task, however often it is ordered.
    pub(crate) key: Option<String>,
    /// When the caller must have heard whether it was started.
    pub(crate) answer_by: Instant,
}

impl Order {
    /// Fingerprint of the order, to tell a repetition from another order with the same key.
    fn purpose(&self) -> String {
        let file = self.file.as_ref();
        let file = file.map(|(name, content)| (name.as_str(), content.as_str()));
        let whole = format!("{:?}", (&self.task, file));
        Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes())
            .simple()
            .to_string()
    }

    fn prompt(&self) -> String {
        match &self.file {
            Some((name, _)) => format!(
                "{}\n\nThe file `{}` is in your working directory.",
                self.task,
                name.as_str()
            ),
            None => self.task.clone(),
        }
    }
}

impl OpenHands {
    /// Starts the task, or finds the one that its key stands for.
    ///
    /// # Errors
    /// No task was started, unless the message says that this is not certain.
    pub(crate) async fn start(&self, order: Order) -> Result<TaskId, ToolError> {
        let Some(key) = &order.key else {
            return self
                .start_new(TaskId::random(), order, BTreeMap::new())
                .await;
        };
        let id = TaskId::of_key(key);
        let purpose = order.purpose();
        // Looked up first: a file that is put in place again would undo the agent's work on it.
        match self.server.conversation(id).await {
            Ok(conversation) => same_purpose(&conversation, &purpose).map(|()| id),
            Err(failure) if failure.is_no_task() => {
                let tags = BTreeMap::from([(PURPOSE_TAG, purpose)]);
                self.start_new(id, order, tags).await
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn start_new(
        &self,
        id: TaskId,
        mut order: Order,
        tags: BTreeMap<&str, String>,
    ) -> Result<TaskId, ToolError> {
        let agent_profile = self.server.agent_profile(self.profile.as_deref()).await?;
        let home = match self.root.is_relative() {
            true => self.server.home().await?,
            false => String::new(),
        };
        let working_dir = self.root.task_dir(&home, id);
        let prompt = order.prompt();
        // Before the agent begins, so that it finds the file.
        if let Some((name, content)) = order.file.take() {
            let path = format!("{working_dir}/{}", name.as_str());
            self.server.upload(&path, content).await?;
        }
        let new = NewConversation {
            id,
            agent_profile: &agent_profile,
            working_dir: &working_dir,
            prompt: &prompt,
            tags: &tags,
        };
        let created = timeout_at(order.answer_by, self.create(&new)).await;
        let conversation = match created {
            Ok(created) => created?,
            Err(_) => {
                let reason = "The agent server takes too long to start the task.";
                return Err(uncertain(
                    id,
                    ToolError::new(ToolErrorKind::Timeout, reason),
                ));
            }
        };
        // Somebody else may have used the key in the meantime.
        if let Some(purpose) = tags.get(PURPOSE_TAG) {
            same_purpose(&conversation, purpose)?;
        }
        tracing::info!(task = %id, "task started");
        Ok(id)
    }

    /// Without an answer it is not known whether the task runs. Asking again is harmless, because
    /// the id is ours: it finds the task or starts it.
    async fn create(&self, new: &NewConversation<'_>) -> Result<Conversation, ToolError> {
        match self.server.start(new).await {
            Err(failure) if failure.is_ambiguous() => {
                tracing::warn!(task = %new.id, ?failure, "no answer to a start, asking again");
                let again = self.server.start(new).await;
                again.map_err(|failure| uncertain(new.id, failure.into()))
            }
            answer => Ok(answer?),
        }
    }
}

fn same_purpose(conversation: &Conversation, purpose: &str) -> Result<(), ToolError> {
    if conversation
        .tags
        .get(PURPOSE_TAG)
        .is_some_and(|tag| tag == purpose)
    {
        return Ok(());
    }
    Err(ToolError::new(
        ToolErrorKind::Conflict,
        "This idempotency_key was used for another task or file. Use a new key for new work.",
    ))
}

fn uncertain(id: TaskId, error: ToolError) -> ToolError {
    let message = format!(
        "{} Whether the task was started is not certain: ask get_task_status for task_id {id} \
         before you run it again.",
        error.message()
    );
    ToolError::new(error.kind(), message).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(task: &str, file: Option<(&str, &str)>) -> Order {
        Order {
            task: task.into(),
            file: file.map(|(name, content)| (FileName::new(name).unwrap(), content.into())),
            key: None,
            answer_by: Instant::now(),
        }
    }

    #[test]
    fn the_prompt_names_the_file() {
        assert_eq!(order("Fix it", None).prompt(), "Fix it");
        assert_eq!(
            order("Fix it", Some(("a/b.py", "x"))).prompt(),
            "Fix it\n\nThe file `a/b.py` is in your working directory."
        );
    }

    #[test]
    fn a_purpose_is_task_and_file() {
        let purpose = order("t", Some(("a", "b"))).purpose();
        assert_eq!(order("t", Some(("a", "b"))).purpose(), purpose);
        assert_ne!(order("t", Some(("ab", ""))).purpose(), purpose);
        assert_ne!(order("t", Some(("a", "c"))).purpose(), purpose);
        assert_ne!(order("t", None).purpose(), purpose);
    }
}
