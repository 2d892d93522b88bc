//! Adapts results of other servers to the client's era.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::SERVER_INFO;
use super::outcome::MethodResult;
use crate::era::Era;
use crate::jsonrpc::{Json, Members, members};
use crate::revision::Revision;
use crate::tool::Content;

/// The `CallToolResult` of another server, without members that `era` does not know; without `has_text`
/// also without a text that only repeats the structure.
pub(super) fn tool(mut result: Members, era: Era, has_text: bool) -> MethodResult {
    result.remove("resultType");
    if !era.knows(Revision::V2025_06_18) {
        result.remove("structuredContent");
        let content = result.get("content");
        if let Some(content) = content.and_then(|content| content_for_era(content, era)) {
            result.set("content", &content);
        }
    } else if !has_text && repeats_structure(&result) {
        result.set("content", "[]");
    }
    let is_error = result.get("isError") == Some("true");
    MethodResult {
        is_error,
        ..with_meta(&result, era)
    }
}

/// True if the content is one text: the JSON of the structure.
fn repeats_structure(result: &Members) -> bool {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
    enum Only {
        Text { text: String },
    }
    let read = || {
        let [Only::Text { text }] = serde_json::from_str(result.get("content")?).ok()?;
        let structure: Value = serde_json::from_str(result.get("structuredContent")?).ok()?;
        let text: Value = serde_json::from_str(&text).ok()?;
        Some(text == structure)
    };
    read().unwrap_or_default()
}

/// A result with the `_meta` of another server, without its `serverInfo`. In the modern era the result
/// later gets this server's `serverInfo` in the same `_meta`.
fn with_meta(result: &Members, era: Era) -> MethodResult {
    // Most results have nothing else in it.
    let has_more = |meta: &&str| {
        members(meta).is_some_and(|mut members| members.any(|(name, _)| name != SERVER_INFO))
    };
    let meta = result.get("_meta").filter(has_more);
    let mut meta = meta.and_then(Members::read).unwrap_or_default();
    meta.remove(SERVER_INFO);
    let (ours, theirs) = match era {
        Era::Modern => (meta.inner(), None),
        _ if meta.is_empty() => (String::new(), None),
        _ => (String::new(), Some(meta.encode())),
    };
    MethodResult {
        meta: ours,
        ..Json::Owned(result.encode_with("_meta", theirs.as_deref())).into()
    }
}

/// Replaces content of types that `era` does not know; `None` if nothing has to be replaced.
fn content_for_era(content: &str, era: Era) -> Option<String> {
    // An escape may hide the name of a type.
    let newer = ["audio", "resource_link", "\\u"];
    if !newer.iter().any(|word| content.contains(word)) {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let replaced = |item: &RawValue| -> Option<String> {
        let known: Content = serde_json::from_str(item.get()).ok()?;
        let is_newer = matches!(known, Content::Audio { .. } | Content::ResourceLink { .. });
        serde_json::to_string(&is_newer.then(|| known.for_era(era))?).ok()
    };
    let items = items.into_iter();
    let items = items.map(|item| replaced(item).unwrap_or_else(|| item.get().to_owned()));
    Some(format!("[{}]", items.collect::<Vec<_>>().join(",")))
}

/// The result of another server, without the members that the modern era adds.
pub(super) fn method(result: &RawValue, era: Era) -> MethodResult {
    let mut members = Members::read(result.get()).unwrap_or_default();
    for added in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(added);
    }
    with_meta(&members, era)
}
