//! Changes that a task made in its directory. Changes after the start of a later task there are not its own.

use crate::api::{AgentServer, ApiResult, Conversation, event_kind};
use crate::git::{ChangedDirectory, Changes, ChangesError, ChangesQuery, OtherWork};
use crate::tags::ConversationTags;

/// Conversations that are searched, newest first.
const MAX_SEARCHED: u32 = 100;

/// Reads the changes of a task from git.
pub(crate) async fn read_changes(
    server: &AgentServer,
    conversation: &Conversation,
    query: &ChangesQuery<'_>,
) -> Result<Changes, ChangesError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    let changed = changed_directory(server, conversation, &tags).await?;
    Changes::read(server, &changed, query).await
}

/// The directory of a task, whose tags are `tags`.
pub(crate) async fn changed_directory<'a>(
    server: &AgentServer,
    conversation: &'a Conversation,
    tags: &'a ConversationTags,
) -> ApiResult<ChangedDirectory<'a>> {
    Ok(ChangedDirectory {
        path: &conversation.workspace.working_dir,
        base: tags.base(),
        store: tags.snapshots(),
        others: other_tasks(server, conversation).await?,
    })
}

/// The work of other tasks in the same directory.
async fn other_tasks(server: &AgentServer, conversation: &Conversation) -> ApiResult<OtherWork> {
    let listed = server.conversations(None, MAX_SEARCHED, None).await?.items;
    let directory = &conversation.workspace.working_dir;
    let is_other = |other: &Conversation| {
        other.id != conversation.id
            && other.workspace.working_dir == *directory
            && !directory.is_empty()
    };
    let others: Vec<_> = listed.into_iter().filter(is_other).collect();
    if others.is_empty() {
        return Ok(OtherWork::default());
    }
    let is_overlapping = others.iter().any(|other| {
        other.created_at < conversation.created_at && !other.execution_status.is_stopped()
    });
    let snapshot = |other: Conversation| {
        let tags = ConversationTags::new(other.tags);
        tags.base().map(str::to_owned)
    };
    let ended = match conversation.execution_status.is_stopped() {
        true => {
            server
                .last_time(conversation.id, event_kind::OBSERVATION)
                .await?
        }
        false => None,
    };
    let snapshots: Vec<_> = others.into_iter().rev().filter_map(snapshot).collect();
    Ok(OtherWork {
        snapshots: snapshots.join(" "),
        is_overlapping,
        ended,
    })
}
