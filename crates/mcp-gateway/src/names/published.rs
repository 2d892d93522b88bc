//! Converts a backend's name of an item to its published name.

use std::sync::Arc;

use gateway_access::OWN_TOOLS;
use hmac_sha256::Hash;

use crate::config::BackendKey;

/// The limit of the APIs of language models: a longer name makes them reject the whole request.
pub(crate) const MAX_NAME_LEN: usize = 64;

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

/// An item that is to be published, ordered by `mangled` first: unchanged names before changed ones.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NameCandidate<'a> {
    mangled: bool,
    bare: bool,
    is_alone: bool,
    pub(super) backend: &'a BackendKey,
    pub(super) item: &'a str,
}

impl<'a> NameCandidate<'a> {
    pub(super) fn new(backend: &'a BackendKey, bare: bool, item: &'a str) -> Self {
        let len = item.len() + if bare { 0 } else { prefix_len(backend) };
        let mangled = len > MAX_NAME_LEN || !item.chars().all(is_portable);
        Self {
            mangled,
            bare,
            is_alone: false,
            backend,
            item,
        }
    }

    /// An item of a backend without others beside it, nor tools of the gateway.
    pub(super) fn alone(backend: &'a BackendKey, item: &'a str) -> Self {
        Self {
            mangled: false,
            bare: true,
            is_alone: true,
            backend,
            item,
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Returns true for an item that would hide a tool of the gateway.
    pub(super) fn is_reserved(&self) -> bool {
        self.bare && !self.is_alone && OWN_TOOLS.contains(&self.item)
    }

    pub(super) fn publish(&self) -> PublishedItem {
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

pub(crate) fn is_portable(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
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
