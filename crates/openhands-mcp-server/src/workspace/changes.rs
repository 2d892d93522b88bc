//! Changes that a task made in its directory. Changes after the start of a later task there are not its own.

use crate::api::{AgentServer, ApiResult, Conversation, event_kind};
use crate::git::{ChangedDirectory, Changes, ChangesError, ChangesQuery, OtherWork};
use crate::tags::{ConversationTags, tag};

/// Conversations in a page, and pages that are searched, newest first.
const PAGE_SIZE: u32 = 100;
const MAX_PAGES: usize = 10;

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
        store: tags.get(tag::SNAPSHOTS),
        others: other_tasks(server, conversation).await?,
    })
}

/// The work of other tasks in the same directory, above it or below it.
async fn other_tasks(server: &AgentServer, conversation: &Conversation) -> ApiResult<OtherWork> {
    // Others work in a directory of its own only if they name it.
    let pages = match has_own_directory(conversation) {
        true => 1,
        false => MAX_PAGES,
    };
    let others = neighbours(server, conversation, pages).await?;
    let mut work = OtherWork::default();
    let (mut snapshots, mut earlier) = (Vec::new(), Vec::new());
    for other in others.into_iter().rev() {
        let is_same = other.workspace.working_dir == conversation.workspace.working_dir;
        if other.created_at >= conversation.created_at {
            // The end of the task is known only in the directory itself.
            work.is_overlapping |= !is_same;
        } else if !other.execution_status.is_stopped() {
            work.is_overlapping = true;
        } else if other.updated_at > conversation.created_at {
            earlier.extend(server.last_time(other.id, event_kind::OBSERVATION).await?);
        }
        let tags = ConversationTags::new(other.tags);
        snapshots.extend(tags.base().filter(|_| is_same).map(str::to_owned));
    }
    if !snapshots.is_empty() && conversation.execution_status.is_stopped() {
        work.ended = server
            .last_time(conversation.id, event_kind::OBSERVATION)
            .await?;
    }
    work.snapshots = snapshots.join(" ");
    work.earlier = earlier.join(" ");
    Ok(work)
}

/// The other tasks whose directory is that of the task, above it or below it, newest first: those that were created
/// after it, and some others.
async fn neighbours(
    server: &AgentServer,
    task: &Conversation,
    pages: usize,
) -> ApiResult<Vec<Conversation>> {
    let own = &task.workspace.working_dir;
    let (mut found, mut page) = (Vec::new(), None);
    for _ in 0..pages {
        let listed = server.conversations(None, PAGE_SIZE, page.as_deref());
        let listed = listed.await?;
        let is_older = |other: &Conversation| other.created_at < task.created_at;
        let is_last = listed.items.last().is_none_or(is_older);
        found.extend(listed.items.into_iter().filter(|other| {
            let directory = &other.workspace.working_dir;
            other.id != task.id && (is_below(directory, own) || is_below(own, directory))
        }));
        page = listed.next_page_id;
        if is_last || page.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The other tasks whose directory is that of the task or below it.
pub(crate) async fn tasks_within(
    server: &AgentServer,
    task: &Conversation,
) -> ApiResult<Vec<Conversation>> {
    let mut others = neighbours(server, task, MAX_PAGES).await?;
    others.retain(|other| is_below(&other.workspace.working_dir, &task.workspace.working_dir));
    Ok(others)
}

/// Returns true if the directory was made for this task.
pub(crate) fn has_own_directory(task: &Conversation) -> bool {
    let name = task.workspace.working_dir.rsplit('/').next();
    name.is_some_and(|name| name.starts_with(&task.id.to_string()))
}

/// Returns true if `directory` is `root` or below it. A task whose directory is not known is nowhere.
pub(crate) fn is_below(directory: &str, root: &str) -> bool {
    let rest = directory.strip_prefix(root);
    !root.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
