//! The files of the page. They are the same for every server, and say nothing about it.

use std::sync::LazyLock;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac_sha256::Hash;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY,
};

use super::super::reply;
use super::FOLDER;

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_bytes!(concat!("../../../page/", $name)) as &[u8])),*]
    };
}

/// The page itself, and what it loads. Not compressed: all together they are smaller than one picture.
const INDEX: &str = include_str!("../../../page/index.html");
const FILES: &[(&str, &[u8])] = &files![
    "app.js"
    "form.js"
    "server.js"
    "style.css"
    "tabs/activity.js"
    "tabs/approvals.js"
    "tabs/backends.js"
    "tabs/configuration.js"
    "tabs/connect.js"
    "tabs/overview.js"
    "tabs/status.js"
    "tabs/tools.js"
    "tabs/try.js"
    "ui.js"
    "vendor/preact.js"
];

/// The place of the hash in [`INDEX`].
const HASH: &str = "HASH";

pub(super) struct Assets {
    /// Of all files. It is in their path, so that browsers may always keep them and modules find each other.
    hash: String,
    index: Bytes,
}

/// Hashed at the first request for the page: at the start of a server it would take 1 ms.
pub(super) static ASSETS: LazyLock<Assets> = LazyLock::new(Assets::new);

impl Assets {
    fn new() -> Self {
        let mut hash = Hash::new();
        hash.update(INDEX);
        FILES.iter().for_each(|(_, content)| hash.update(content));
        let hash = URL_SAFE_NO_PAD.encode(&hash.finalize()[..9]);
        let index = INDEX.replace(HASH, &hash).into();
        Self { hash, index }
    }

    pub(super) fn get(&self, path: &str, headers: &HeaderMap) -> Response {
        let (content, kind, keep) = if path == "/" {
            (self.index.clone(), "text/html; charset=utf-8", "no-cache")
        } else if let Some((name, content)) = self.file(path) {
            let kind = match name.rsplit_once('.') {
                Some((_, "css")) => "text/css; charset=utf-8",
                _ => "text/javascript; charset=utf-8",
            };
            let keep = "public, max-age=31536000, immutable";
            (Bytes::from_static(content), kind, keep)
        } else {
            return super::failure(StatusCode::NOT_FOUND, "there is no such file");
        };
        let tag = format!("\"{}\"", self.hash);
        let is_known = headers
            .get(IF_NONE_MATCH)
            .is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut response = match is_known {
            true => reply::empty(StatusCode::NOT_MODIFIED),
            false => reply::json(StatusCode::OK, content),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
        if path == "/" {
            // Others than browsers get the help there.
            headers.insert(VARY, HeaderValue::from_static("accept"));
        }
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        response
    }

    fn file(&self, path: &str) -> Option<(&'static str, &'static [u8])> {
        let path = path.strip_prefix(FOLDER)?.strip_prefix(&*self.hash)?;
        let name = path.strip_prefix('/')?;
        FILES.iter().copied().find(|(file, _)| *file == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of the whole page, in bytes.
    const MAX_BYTES: usize = 110 * 1024;

    #[test]
    fn page_is_small_and_names_every_file_that_it_loads() {
        let bytes: usize = FILES.iter().map(|(_, content)| content.len()).sum();
        assert!(bytes + INDEX.len() <= MAX_BYTES, "{bytes}");
        for (name, content) in FILES {
            let text = std::str::from_utf8(content).unwrap();
            let imports = text.lines().filter(|line| line.starts_with("import "));
            for line in imports {
                let file = line.split('"').nth(1).unwrap().rsplit('/').next().unwrap();
                let is_served = FILES
                    .iter()
                    .any(|(served, _)| served.rsplit('/').next() == Some(file));
                assert!(is_served, "{name}: {line}");
            }
        }
    }

    #[test]
    fn policy_needs_no_inline_code_or_style() {
        for word in ["<style", "style=", "onclick", "javascript:", "<script>"] {
            assert!(!INDEX.contains(word), "{word}");
        }
        for word in [
            "innerHTML =",
            "dangerouslySetInnerHTML:",
            "document.write",
            "new Function",
            "eval(",
        ] {
            for (name, content) in FILES
                .iter()
                .filter(|(name, _)| !name.starts_with("vendor/"))
            {
                assert!(
                    !std::str::from_utf8(content).unwrap().contains(word),
                    "{name}: {word}"
                );
            }
        }
    }
}
