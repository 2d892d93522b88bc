//! Under which names the backends' tools and prompts are published.
//!
//! The way back is the map of the server that offers them: a name is never split, so no text that a
//! client sends can reach an item that was not published.

mod published;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use self::published::Form;
pub(crate) use self::published::Published;
use crate::config::{BackendKey, Filter};

/// The gateway's own tools. No item of a backend has such a name.
pub(crate) const OWN: [&str; 5] = [
    "gateway_status",
    "get_events",
    "gateway_restart",
    "search_tools",
    "call_tool",
];

/// The items of one backend.
pub(crate) struct BackendItems<'a> {
    /// The backend.
    pub(crate) backend: &'a BackendKey,
    /// What of it is published.
    pub(crate) filter: &'a Filter,
    /// Its items keep their names.
    pub(crate) bare: bool,
    /// The names, as the backend gives them.
    pub(crate) names: Vec<&'a str>,
}

/// The published names of all backends.
#[derive(Debug, Default)]
pub(crate) struct Names {
    published: Vec<Published>,
    index: HashMap<Arc<str>, usize>,
    refused: Vec<Refused>,
}

/// An item that is not published although nothing denies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Whose it is.
    pub(crate) backend: BackendKey,
    /// Its name at the backend.
    pub(crate) item: String,
    /// Why not.
    pub(crate) reason: Reason,
}

/// Why an item is not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has no name.
    Unnamed,
    /// The backend lists it more than once; the first one is published.
    Twice,
    /// Its published name is taken by this other item.
    Taken(Arc<str>),
    /// Its published name is one of the gateway's own.
    Reserved,
}

impl Names {
    /// Publishes what the filters let pass. The same offers give the same names in the same order,
    /// in whatever order they come.
    pub(crate) fn publish<'a>(offers: impl IntoIterator<Item = BackendItems<'a>>) -> Self {
        let mut forms = Vec::new();
        for BackendItems {
            backend,
            filter,
            bare,
            names,
        } in offers
        {
            let allowed = names.into_iter().filter(|name| filter.allows(name));
            forms.extend(allowed.map(|name| Form::of(backend, bare, name)));
        }
        // Names that stay as they are come first: a made-up one never takes the place of a real one.
        forms.sort_unstable();
        let mut names = Self::default();
        for form in forms {
            names.add(form);
        }
        names.published.sort_by(|a, b| a.name.cmp(&b.name));
        names
    }

    /// What is published, in the order of the names.
    pub(crate) fn published(&self) -> &[Published] {
        &self.published
    }

    /// What is not, and why.
    pub(crate) fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn add(&mut self, form: Form<'_>) {
        let Form { backend, item, .. } = form;
        let reason = if item.is_empty() {
            Reason::Unnamed
        } else if form.is_reserved() {
            Reason::Reserved
        } else {
            let published = form.publish();
            match self.index.entry(published.name.clone()) {
                Entry::Vacant(free) => {
                    free.insert(self.published.len());
                    self.published.push(published);
                    return;
                }
                Entry::Occupied(taken) => {
                    let holder = &self.published[*taken.get()];
                    if *holder.item == *item && holder.backend == *backend {
                        Reason::Twice
                    } else {
                        Reason::Taken(holder.item.clone())
                    }
                }
            }
        };
        self.refused.push(Refused {
            backend: backend.clone(),
            item: item.to_owned(),
            reason,
        });
    }
}

#[cfg(test)]
mod tests;
