//! The owner of a task: the name of the bearer token with which it was created.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::api::{AgentServer, ApiFailure, ApiResult, TaskId};
use crate::tags::ConversationTags;

/// Owners that are kept in memory; they never change.
const MAX_KNOWN: usize = 10_000;
/// The directory for the directories of principals, below the root of tasks.
const DIRECTORY: &str = ".mcp-principals";

/// The principal that creates a task, or asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(String);

impl Owner {
    pub(crate) fn new(principal: &str) -> Self {
        Self(principal.to_owned())
    }

    /// The id and the name of the principal.
    pub(crate) fn tag(&self) -> (String, &str) {
        (self.id(), &self.0)
    }

    /// The id of the principal, as it is kept at a task. Names may be too long for a tag.
    pub(crate) fn id(&self) -> String {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.as_bytes());
        id.simple().to_string()
    }

    /// Returns true if the principal may see a task with these tags: its own, or one without an owner.
    pub(crate) fn may_see(&self, tags: &ConversationTags) -> bool {
        tags.owner().is_none_or(|owner| owner == self.id())
    }

    /// The caller's key, which other principals may use for their own tasks.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.id())
    }

    /// The root of its tasks, below the `root` of all.
    pub(crate) fn root(&self, root: &str) -> String {
        format!("{root}/{DIRECTORY}/{}", self.id())
    }
}

/// The owners of tasks that were asked for; `None` for tasks without an owner.
#[derive(Default)]
pub(crate) struct Owners(Mutex<HashMap<TaskId, Option<String>>>);

impl Owners {
    /// # Errors
    /// The task is not the principal's. It looks as if it did not exist.
    pub(crate) async fn check(
        &self,
        server: &AgentServer,
        id: TaskId,
        owner: &Owner,
    ) -> ApiResult<()> {
        let known = self.known().get(&id).cloned();
        let found = match known {
            Some(found) => found,
            None => {
                let tags = ConversationTags::new(server.conversation(id).await?.tags);
                let found = tags.owner().map(str::to_owned);
                let mut known = self.known();
                if known.len() >= MAX_KNOWN {
                    known.clear();
                }
                known.insert(id, found.clone());
                found
            }
        };
        match found.is_none_or(|found| found == owner.id()) {
            true => Ok(()),
            false => Err(ApiFailure::absent(id)),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_see_their_own_tasks_and_nobodys() {
        let (alice, bob) = (Owner::new("alice"), Owner::new("bob"));
        let mut tags = ConversationTags::default();
        assert!(alice.may_see(&tags) && bob.may_see(&tags));
        tags.set_owner(Some(alice.tag()));
        assert_eq!(tags.principal(), Some("alice"));
        assert!(alice.may_see(&tags) && !bob.may_see(&tags));
        assert_ne!(alice.key("k"), bob.key("k"));
        assert!(alice.root("/srv").starts_with("/srv/.mcp-principals/"));
    }
}
