//! Tasks in the database, so that every gateway can answer for the tasks of all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::server::{StoredTask, TaskOwner, TaskStore};
use mcp_core::tool::ToolError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;

use super::{GONE_AFTER, SharedTables};

/// The random digits at the beginning of an id.
const ID_DIGITS: usize = 32;
/// A longer id does not fit into the index.
const MAX_ID_BYTES: usize = 2_000;

/// A task that is to be stored.
pub(super) struct SavedTask {
    pub(super) owner: TaskOwner,
    pub(super) id: String,
    pub(super) json: String,
    pub(super) lifetime: Duration,
    pub(super) has_ended: bool,
    _bytes: OwnedSemaphorePermit,
}

impl SharedTables {
    async fn read(
        &self,
        owner: TaskOwner,
        id: Option<String>,
    ) -> Result<Vec<StoredTask>, ToolError> {
        let rows = self.ask(move |tables| tables.tasks(&owner, id.as_deref()));
        let rows = rows.await.ok_or_else(unavailable)?;
        // A task of a later version may have another form.
        let tasks = rows.into_iter().filter_map(|(json, is_lost)| {
            let mut task: StoredTask = serde_json::from_str(&json).ok()?;
            task.is_lost = is_lost;
            Some(task)
        });
        Ok(tasks.collect())
    }
}

/// The error of a request that needs the database.
fn unavailable() -> ToolError {
    ToolError::unavailable(
        "The task cannot be looked up: the database of the gateways cannot be reached. Try again.",
    )
}

/// Returns true for the form of the ids of tasks: random digits, and for a task of a backend its name there after a dot.
fn is_id(text: &str) -> bool {
    let (digits, rest) = text.split_at_checked(ID_DIGITS).unwrap_or_default();
    let are_digits = digits.len() == ID_DIGITS
        && digits
            .bytes()
            .all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let is_rest = rest.is_empty() || rest.starts_with('.') && !rest.contains('\0');
    are_digits && is_rest && text.len() <= MAX_ID_BYTES
}

impl TaskStore for SharedTables {
    fn save(
        &self,
        owner: TaskOwner,
        task: StoredTask,
        lifetime: Duration,
    ) -> BoxFuture<'static, ()> {
        let json = serde_json::to_string(&task).ok();
        let saved = json.filter(|_| is_id(&task.id)).and_then(|json| {
            let size = u32::try_from(json.len()).unwrap_or(u32::MAX);
            let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(size);
            Some(SavedTask {
                owner,
                has_ended: task.has_ended(),
                id: task.id,
                json,
                lifetime,
                _bytes: bytes.ok()?,
            })
        });
        match saved {
            Some(task) => self.write(move |tables| tables.save_task(&task)),
            None => {
                tracing::warn!(
                    "a task is not stored: too many wait for the database, or its id is too long"
                );
                Box::pin(std::future::ready(()))
            }
        }
    }

    fn find<'a>(
        &'a self,
        owner: TaskOwner,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredTask>, ToolError>> {
        Box::pin(async move {
            if !is_id(id) {
                return Ok(None);
            }
            let found = self.read(owner, Some(id.to_owned())).await?.pop();
            if found.as_ref().is_none_or(|task| !task.is_lost) {
                return Ok(found);
            }
            sleep(GONE_AFTER).await;
            Ok(self.read(owner, Some(id.to_owned())).await?.pop())
        })
    }

    fn list(&self, owner: TaskOwner) -> BoxFuture<'_, Result<Vec<StoredTask>, ToolError>> {
        Box::pin(self.read(owner, None))
    }

    fn cancel<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let id = id.to_owned();
            let asked = self.ask(move |tables| tables.cancel_task(&id));
            asked.await.ok_or_else(unavailable)
        })
    }

    fn cancelled(&self, id: &str) -> BoxFuture<'static, ()> {
        let (mut cancelled, id) = (self.known.cancelled.subscribe(), id.to_owned());
        Box::pin(async move {
            loop {
                match cancelled.recv().await {
                    Ok(other) if *other == *id => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    // At the end of the process.
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_those_that_are_made() {
        let id = |number: u32| format!("{number:032x}");
        let long = format!("{}.{}", id(1), "x".repeat(MAX_ID_BYTES));
        for (text, expected) in [
            (id(1), true),
            (id(1) + ".run_workflow.17", true),
            (id(1) + ".ü", true),
            (id(1) + ".a\0", false),
            (id(1) + "a", false),
            (id(0xa).to_uppercase(), false),
            (format!("{}\0", &id(1)[1..]), false),
            (format!("{}é", &id(1)[1..]), false),
            (id(1)[1..].to_owned(), false),
            (String::new(), false),
            (long, false),
        ] {
            assert_eq!(is_id(&text), expected, "{text:?}");
        }
    }
}
