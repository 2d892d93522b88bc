//! Other tasks in the directory of a task: changes after the start of a later one are not its own.

use openhands_api::{AgentServer, ApiResult, Conversation, ListedConversation, TaskId, event_kind};

use crate::tags::ConversationTags;

/// Conversations that are searched, newest first.
const MAX_SEARCHED: u32 = 100;

/// Other tasks in the same directory.
#[derive(Default)]
pub(super) struct OtherTasks {
    /// Their initial snapshots, oldest first.
    pub(super) snapshots: Vec<String>,
    /// One of them, which began earlier, has not ended yet.
    pub(super) is_overlapping: bool,
    /// The end of the task itself: the agent server's local time.
    pub(super) ended: Option<String>,
}

impl OtherTasks {
    pub(super) async fn find(
        server: &AgentServer,
        id: TaskId,
        conversation: &Conversation,
    ) -> ApiResult<Self> {
        let listed = server.conversations(None, MAX_SEARCHED, None).await?.items;
        let directory = &conversation.workspace.working_dir;
        let is_other = |other: &ListedConversation| {
            other.id != id && other.workspace.working_dir == *directory && !directory.is_empty()
        };
        let others: Vec<_> = listed.into_iter().filter(is_other).collect();
        if others.is_empty() {
            return Ok(Self::default());
        }
        let is_overlapping = others.iter().any(|other| {
            other.created_at < conversation.created_at && !other.execution_status.is_stopped()
        });
        let snapshot = |other: ListedConversation| {
            let tags = ConversationTags::new(other.tags);
            tags.base().map(str::to_owned)
        };
        let ended = match conversation.execution_status.is_stopped() {
            true => server.last_time(id, event_kind::OBSERVATION).await?,
            false => None,
        };
        Ok(Self {
            snapshots: others.into_iter().rev().filter_map(snapshot).collect(),
            is_overlapping,
            ended,
        })
    }
}
