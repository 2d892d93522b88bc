//! From a backend's name of an item to the one that clients see.

use std::sync::Arc;

use hmac_sha256::Hash;

use crate::config::BackendKey;

/// What the APIs of language models take; one name that is longer gets a whole request refused.
pub(crate) const MAX_LEN: usize = 64;

const SEPARATOR: &str = "__";

/// `_` and eight hexadecimal digits.
const HASH_LEN: usize = 9;

/// A published item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// The name that clients see: `^[a-zA-Z0-9_-]{1,64}$`.
    pub(crate) name: Arc<str>,
    /// The name in the unversioned era: `KEY:NAME`, with the backend's own name where it is printable.
    pub(crate) plain: Arc<str>,
    /// Whose it is.
    pub(crate) backend: BackendKey,
    /// Its name at the backend, byte for byte.
    pub(crate) item: Arc<str>,
}

impl Published {
    /// The other names by which clients may call it. Published names have neither colons nor dots,
    /// and keys have none either: the names of all items never meet.
    pub(crate) fn aliases(&self) -> [String; 2] {
        [':', '.'].map(|separator| format!("{}{separator}{}", self.backend, self.item))
    }
}

/// How an item will be published, ordered: the names that can stay first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form<'a> {
    mangled: bool,
    bare: bool,
    pub(super) backend: &'a BackendKey,
    pub(super) item: &'a str,
}

impl<'a> Form<'a> {
    pub(super) fn of(backend: &'a BackendKey, bare: bool, item: &'a str) -> Self {
        let len = item.len() + if bare { 0 } else { prefix_len(backend) };
        let mangled = len > MAX_LEN || !item.chars().all(is_portable);
        Self {
            mangled,
            bare,
            backend,
            item,
        }
    }

    /// True for an item that would take the place of one of the gateway's own.
    pub(super) fn is_reserved(&self) -> bool {
        self.bare && super::OWN.contains(&self.item)
    }

    pub(super) fn publish(&self) -> Published {
        let Self { backend, item, .. } = *self;
        let prefix = if self.bare { 0 } else { prefix_len(backend) };
        let portable = if self.mangled {
            mangle(item, MAX_LEN - prefix)
        } else {
            item.to_owned()
        };
        let printable =
            item.len() <= 2 * MAX_LEN && item.bytes().all(|byte| byte.is_ascii_graphic());
        let plain = if printable { item } else { &portable };
        let (name, plain) = if self.bare {
            (portable.clone(), plain.to_owned())
        } else {
            (
                format!("{backend}{SEPARATOR}{portable}"),
                format!("{backend}:{plain}"),
            )
        };
        Published {
            name: name.into(),
            plain: plain.into(),
            backend: backend.clone(),
            item: item.into(),
        }
    }
}

/// What stands before the names of a backend's items.
fn prefix_len(backend: &BackendKey) -> usize {
    backend.as_str().len() + SEPARATOR.len()
}

pub(super) fn is_portable(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// At most `room` portable characters: what can be read of the name, and a hash of all of it so
/// that names which read the same stay apart.
fn mangle(item: &str, room: usize) -> String {
    let portable = |letter| if is_portable(letter) { letter } else { '_' };
    let mut name: String = item.chars().map(portable).take(room - HASH_LEN).collect();
    name.push('_');
    for byte in &Hash::hash(item.as_bytes())[..4] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}
