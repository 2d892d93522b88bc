//! The backend of each resource: only that backend is asked for the resource, and may announce its changes.

use std::collections::{BTreeSet, HashMap};

use gateway_access::{Filter, uri_spellings};

use crate::config::BackendKey;

/// The backends that list resources and templates.
#[derive(Default)]
pub(crate) struct ResourceOwners {
    /// By the URI of a resource, and by the text of a template.
    listed: HashMap<String, BTreeSet<BackendKey>>,
    templates: Vec<Template>,
    backends: BTreeSet<BackendKey>,
}

struct Template {
    text: String,
    backend: BackendKey,
    filter: Filter,
}

impl ResourceOwners {
    /// Adds a resource or a template that a backend lists, and that its filter allows.
    pub(crate) fn add(&mut self, backend: &BackendKey, id: &str, filter: &Filter) {
        if id.contains('{') {
            self.templates.push(Template {
                text: id.to_owned(),
                backend: backend.clone(),
                filter: filter.clone(),
            });
        }
        self.backends.insert(backend.clone());
        let listed = self.listed.entry(id.to_owned()).or_default();
        listed.insert(backend.clone());
    }

    /// The backends that list this URI or template. If there are several, it is not offered.
    pub(crate) fn listing(&self, id: &str) -> impl Iterator<Item = &BackendKey> {
        self.listed.get(id).into_iter().flatten()
    }

    /// The only backend that has this resource or template. A URI that a backend lists is not one of a template of
    /// another one, and a URI that fits templates of several belongs to none.
    pub(crate) fn owner(&self, uri: &str) -> Option<&BackendKey> {
        let found = self.candidates(uri);
        let owner = found.first().copied().filter(|_| found.len() == 1)?;
        // A rule may name a backend before a URI: no other backend has a URI that looks like this.
        let named = uri.split_once(':').filter(|(_, rest)| rest.contains("://"));
        let is_named = |key: &&BackendKey| named.is_some_and(|(name, _)| key.as_str() == name);
        let named = self.backends.iter().find(is_named);
        named.is_none_or(|key| key == owner).then_some(owner)
    }

    /// True if `backend` may announce changes of this resource: it is no other one's.
    pub(crate) fn may_announce(&self, backend: &BackendKey, uri: &str) -> bool {
        self.candidates(uri).is_empty() || self.owner(uri) == Some(backend)
    }

    fn candidates(&self, uri: &str) -> BTreeSet<&BackendKey> {
        if let Some(listed) = self.listed.get(uri) {
            return listed.iter().collect();
        }
        let templates = self.templates.iter();
        let fitting = templates
            .filter(|template| fits(&template.text, uri) && !template.filter.denies_uri(uri));
        // Another spelling of a URI that is listed is one of its backend, too.
        let spellings = uri_spellings(uri).unwrap_or_default();
        let spelled = spellings
            .iter()
            .filter_map(|uri| self.listed.get(&**uri))
            .flatten();
        fitting
            .map(|template| &template.backend)
            .chain(spelled)
            .collect()
    }
}

/// Returns true if `uri` starts and ends like `template`. The part between is left to the backend:
/// RFC 6570 has more levels than are worth parsing here.
pub(crate) fn fits(template: &str, uri: &str) -> bool {
    let Some((start, rest)) = template.split_once('{') else {
        return template == uri;
    };
    let end = rest.rsplit_once('}').map_or("", |(_, end)| end);
    let inner = uri
        .strip_prefix(start)
        .and_then(|uri| uri.strip_suffix(end));
    !start.is_empty() && inner.is_some_and(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_has_one_backend_or_none() {
        let mut owners = ResourceOwners::default();
        let key = |name: &str| BackendKey::parse(name).unwrap();
        let none = Filter::default();
        let no_logs = Filter::new(&[], &["docker://logs/*".to_owned()]);
        for (backend, id, filter) in [
            ("aevil", "docker://logs/web", &none),
            ("aevil", "docker://logs/only-here", &none),
            ("aevil", "aevil://x", &none),
            ("aevil", "docker:docker://logs/x", &none),
            ("aevil", "test://{id}", &none),
            ("bad", "docker://{+any}", &no_logs),
            ("docker", "docker://logs/web", &none),
            ("docker", "docker://logs/{id}", &none),
            ("docker", "docker://images/a b", &none),
            ("other", "test://t/{id}", &none),
            ("other", "test://{id}", &none),
        ] {
            owners.add(&key(backend), id, filter);
        }
        for (uri, expected) in [
            ("docker://logs/web", None),
            ("docker://logs/only-here", Some("aevil")),
            ("docker://logs/db", Some("docker")),
            ("docker://logs/{id}", Some("docker")),
            ("docker://volumes/x", Some("bad")),
            ("docker://images/a b", Some("docker")),
            // Two would answer: the template of one, and another spelling of a URI of the other.
            ("docker://images/a%20b", None),
            ("docker://logs/we%62", None),
            ("aevil://x", Some("aevil")),
            ("aevil://y", None),
            ("docker:docker://logs/x", None),
            ("test://t/1", None),
            ("test://{id}", None),
        ] {
            assert_eq!(owners.owner(uri).map(BackendKey::as_str), expected, "{uri}");
        }
        assert!(owners.may_announce(&key("aevil"), "aevil://y"));
        assert!(!owners.may_announce(&key("aevil"), "docker://logs/web"));
        assert!(!owners.may_announce(&key("aevil"), "docker://logs/db"));
    }
}
