//! The public names of the backends' tools and prompts.
//!
//! A client's name is only looked up in the map of published names and never split into its parts, so
//! no text that a client sends can reach an item that is not published.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use gateway_access::OWN_TOOLS;
use hmac_sha256::Hash;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{BackendKey, MAX_NAME_LEN, is_portable};

/// The items of one backend.
pub(crate) struct BackendItems<'a> {
    pub(crate) backend: &'a BackendKey,
    /// The names are published without the prefix `KEY__`.
    pub(crate) bare: bool,
    /// The names are published as they are: there are no others.
    pub(crate) is_alone: bool,
    /// The names in the backend's list.
    pub(crate) names: Vec<(Claim, &'a str)>,
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
    /// Publishes the items. The names and their order do not depend on the order of `backends`.
    pub(crate) fn publish<'a>(backends: impl IntoIterator<Item = BackendItems<'a>>) -> Self {
        let mut candidates = Vec::new();
        for BackendItems {
            backend,
            bare,
            is_alone,
            names,
        } in backends
        {
            candidates.extend(names.into_iter().map(|(claim, item)| NameCandidate {
                claim,
                mangled: !is_alone && needs_other_name(backend, bare, item),
                bare: bare || is_alone,
                is_alone,
                backend,
                item,
            }));
        }
        // The only backend keeps its order.
        let is_alone = candidates.iter().all(|candidate| candidate.is_alone);
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
        let NameCandidate {
            claim,
            backend,
            item,
            ..
        } = candidate;
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
        // A denied item is left out on purpose, which needs no other reason.
        if claim != Claim::Denied {
            self.refused.push(RefusedItem {
                backend: backend.to_string(),
                item: item.to_owned(),
                reason,
            });
        }
    }
}

const SEPARATOR: &str = "__";

/// `_` and eight hexadecimal digits.
const HASH_LEN: usize = 9;

/// A published tool or prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedItem {
    /// The name that clients see: `^[a-zA-Z0-9_-]{1,64}$`.
    pub(crate) name: Arc<str>,
    /// The name for clients without a handshake: `KEY:NAME`, with the original name if it is
    /// printable.
    pub(crate) plain: Arc<str>,
    pub(crate) backend: BackendKey,
    /// The name in the backend's list, byte for byte.
    pub(crate) item: Arc<str>,
}

impl PublishedItem {
    /// Other names by which clients can call it. Published names and keys have neither colons nor
    /// dots, so an alias is never the name of another item.
    pub(crate) fn aliases(&self) -> [String; 2] {
        [':', '.'].map(|separator| format!("{}{separator}{}", self.backend, self.item))
    }
}

/// How an item competes for a name with those of other backends, the best first: one that cannot be called hides none that
/// can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// It can be called, or was approved before.
    Full,
    /// It is held back, and was never approved.
    Unapproved,
    /// The configuration denies it.
    Denied,
}

/// An item that is to be published, ordered by `claim` first, then by `mangled`: unchanged names before changed ones.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NameCandidate<'a> {
    claim: Claim,
    mangled: bool,
    bare: bool,
    is_alone: bool,
    backend: &'a BackendKey,
    item: &'a str,
}

/// True for an item whose name clients reject.
fn needs_other_name(backend: &BackendKey, bare: bool, item: &str) -> bool {
    let prefix = if bare { 0 } else { prefix_len(backend) };
    prefix + item.len() > MAX_NAME_LEN || !item.chars().all(is_portable)
}

impl NameCandidate<'_> {
    /// Returns true for an item that would hide a tool of the gateway.
    fn is_reserved(&self) -> bool {
        self.bare && !self.is_alone && OWN_TOOLS.contains(&self.item)
    }

    fn publish(&self) -> PublishedItem {
        let Self { backend, item, .. } = *self;
        let prefix = if self.bare { 0 } else { prefix_len(backend) };
        let portable = if self.mangled {
            mangle(item, MAX_NAME_LEN - prefix)
        } else {
            item.to_owned()
        };
        let printable =
            item.len() <= 2 * MAX_NAME_LEN && item.bytes().all(|byte| byte.is_ascii_graphic());
        let plain = if printable { item } else { &portable };
        let (name, plain) = if self.bare {
            (portable.clone(), plain.to_owned())
        } else {
            (
                format!("{backend}{SEPARATOR}{portable}"),
                format!("{backend}:{plain}"),
            )
        };
        PublishedItem {
            name: name.into(),
            plain: plain.into(),
            backend: backend.clone(),
            item: item.into(),
        }
    }
}

/// The length of `KEY__`.
fn prefix_len(backend: &BackendKey) -> usize {
    backend.as_str().len() + SEPARATOR.len()
}

/// Returns at most `room` portable characters: the readable part of the name, and a hash of the whole
/// name, so that different names stay different.
fn mangle(item: &str, room: usize) -> String {
    let portable = |letter| if is_portable(letter) { letter } else { '_' };
    let mut name: String = item.chars().map(portable).take(room - HASH_LEN).collect();
    name.push('_');
    for byte in &Hash::hash(item.as_bytes())[..4] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

#[cfg(test)]
mod tests;
