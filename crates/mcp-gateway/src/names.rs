//! The public names of the backends' tools and prompts.
//!
//! A client's name is only looked up in the map of published names and never split into its parts, so
//! no text that a client sends can reach an item that is not published.

mod published;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use gateway_access::Filter;
use schemars::JsonSchema;
use serde::Serialize;

use self::published::NameCandidate;
pub(crate) use self::published::{MAX_NAME_LEN, PublishedItem, is_portable};
use crate::config::BackendKey;

/// The items of one backend.
pub(crate) struct BackendItems<'a> {
    pub(crate) backend: &'a BackendKey,
    /// Items that it denies are not published.
    pub(crate) filter: &'a Filter,
    /// The names are published without the prefix `KEY__`.
    pub(crate) bare: bool,
    /// The names are published as they are: there are no others.
    pub(crate) is_alone: bool,
    /// The names in the backend's list.
    pub(crate) names: Vec<&'a str>,
}

/// The published names of all backends.
#[derive(Debug, Default)]
pub(crate) struct PublishedNames {
    /// In the order of their names; those of a backend alone in its own order.
    pub(crate) published: Vec<PublishedItem>,
    index: HashMap<Arc<str>, usize>,
    pub(crate) refused: Vec<RefusedItem>,
}

// Not documentation, which would be a part of the schema of `gateway_status`: an item that cannot be
// published although no rule denies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct RefusedItem {
    pub(crate) backend: String,
    pub(crate) item: String,
    pub(crate) reason: String,
}

impl PublishedNames {
    /// Publishes the items that the filters allow. The names and their order do not depend on the
    /// order of `backends`.
    pub(crate) fn publish<'a>(backends: impl IntoIterator<Item = BackendItems<'a>>) -> Self {
        let mut candidates = Vec::new();
        for BackendItems {
            backend,
            filter,
            bare,
            is_alone,
            names,
        } in backends
        {
            let allowed = names.into_iter().filter(|name| filter.allows(name));
            candidates.extend(allowed.map(|name| match is_alone {
                true => NameCandidate::alone(backend, name),
                false => NameCandidate::new(backend, bare, name),
            }));
        }
        // The only backend keeps its order.
        let is_alone = candidates.iter().all(|candidate| candidate.is_alone());
        if !is_alone {
            // Unchanged names come first: a generated name never takes the place of a real one.
            candidates.sort_unstable();
        }
        let mut names = Self::default();
        for candidate in candidates {
            names.add(candidate);
        }
        if !is_alone {
            names.published.sort_by(|a, b| a.name.cmp(&b.name));
        }
        names
    }

    fn add(&mut self, candidate: NameCandidate<'_>) {
        let NameCandidate { backend, item, .. } = candidate;
        let reason = if item.is_empty() {
            "has no name".to_owned()
        } else if candidate.is_reserved() {
            "has the name of a tool of the gateway".to_owned()
        } else {
            let published = candidate.publish();
            match self.index.entry(published.name.clone()) {
                Entry::Vacant(free) => {
                    free.insert(self.published.len());
                    self.published.push(published);
                    return;
                }
                Entry::Occupied(taken) => {
                    let holder = &self.published[*taken.get()];
                    if *holder.item == *item && holder.backend == *backend {
                        "is listed twice".to_owned()
                    } else {
                        format!("has the same name as {:?}", holder.item)
                    }
                }
            }
        };
        self.refused.push(RefusedItem {
            backend: backend.to_string(),
            item: item.to_owned(),
            reason,
        });
    }
}

#[cfg(test)]
mod tests;
