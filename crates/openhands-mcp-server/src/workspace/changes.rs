//! Changes that a task made in its directory. Changes after the start of a later task there are not its own.

use crate::api::tags::tag;
use crate::api::{AgentServer, ApiResult, Conversation, TaskId, event_kind};
use crate::git::{ChangedDirectory, Changes, ChangesQuery};

/// Pages of conversations that are searched, newest first.
const MAX_PAGES: usize = 10;

/// Reads the changes of a task from git.
pub(crate) async fn read_changes(
    server: &AgentServer,
    conversation: &Conversation,
    query: &ChangesQuery<'_>,
) -> ApiResult<Changes> {
    let changed = changed_directory(server, conversation).await?;
    Changes::read(server, &changed, query).await
}

/// The directory of a task, with the work of other tasks in it, above it or below it.
pub(crate) async fn changed_directory<'a>(
    server: &AgentServer,
    conversation: &'a Conversation,
) -> ApiResult<ChangedDirectory<'a>> {
    let mut changed = ChangedDirectory {
        path: &conversation.workspace.working_dir,
        base: conversation.tags.base(),
        store: conversation.tags.get(tag::SNAPSHOTS),
        ..ChangedDirectory::default()
    };
    // Others work in a directory of its own only if they name it.
    let pages = match has_own_directory(conversation) {
        true => 1,
        false => MAX_PAGES,
    };
    let others = neighbours(server, conversation, pages).await?;
    let (mut snapshots, mut earlier) = (Vec::new(), Vec::new());
    for other in others.into_iter().rev() {
        let is_same = other.workspace.working_dir == conversation.workspace.working_dir;
        if other.created_at >= conversation.created_at {
            // The end of the task is known only in the directory itself.
            changed.is_overlapping |= !is_same;
        } else if !other.execution_status.is_stopped() {
            changed.is_overlapping = true;
        } else if other.updated_at > conversation.created_at {
            earlier.extend(server.last_time(other.id, event_kind::OBSERVATION).await?);
        }
        let base = other.tags.base();
        snapshots.extend(base.filter(|_| is_same).map(str::to_owned));
    }
    if !snapshots.is_empty() && conversation.execution_status.is_stopped() {
        changed.ended = server
            .last_time(conversation.id, event_kind::OBSERVATION)
            .await?;
    }
    changed.others = snapshots.join(" ");
    changed.earlier = earlier.join(" ");
    Ok(changed)
}

/// The other tasks whose directory is that of the task, above it or below it, newest first: those that were created
/// after it, and some others.
async fn neighbours(
    server: &AgentServer,
    task: &Conversation,
    pages: usize,
) -> ApiResult<Vec<Conversation>> {
    let own = &task.workspace.working_dir;
    let (mut found, mut read) = (Vec::new(), 0);
    let add = |listed: Vec<Conversation>, _| {
        let is_older = |other: &Conversation| other.created_at < task.created_at;
        let is_last = listed.last().is_none_or(is_older);
        found.extend(listed.into_iter().filter(|other| {
            let directory = &other.workspace.working_dir;
            other.id != task.id && (is_below(directory, own) || is_below(own, directory))
        }));
        read += 1;
        !is_last && read < pages
    };
    server.each_page(None, add).await?;
    Ok(found)
}

/// Another task whose directory is that of the task or below it: of all that were created later, or only of those that
/// run and of the newest, which takes two requests.
pub(crate) async fn task_within(
    server: &AgentServer,
    task: &Conversation,
    all: bool,
) -> ApiResult<Option<TaskId>> {
    let own = &task.workspace.working_dir;
    let is_within =
        |other: &Conversation| other.id != task.id && is_below(&other.workspace.working_dir, own);
    let pages = if all { MAX_PAGES } else { 1 };
    let mut others = neighbours(server, task, pages).await?;
    if !all {
        others.extend(server.running().await?);
    }
    Ok(others
        .iter()
        .find(|other| is_within(other))
        .map(|other| other.id))
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
