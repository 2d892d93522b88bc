//! Results of other servers, made fit for the client's era.

use serde_json::value::RawValue;

use super::outcome::MethodResult;
use crate::era::Era;
use crate::jsonrpc::{Json, Members};
use crate::revision::Revision;
use crate::tool::Content;

/// The `CallToolResult` of another server, without what clients of `era` do not know.
pub(super) fn tool(mut result: Members, era: Era) -> MethodResult {
    result.remove("resultType");
    if !era.knows(Revision::V2025_06_18) {
        result.remove("structuredContent");
    }
    if !era.knows(Revision::V2025_06_18)
        && let Some(content) = result
            .get("content")
            .and_then(|content| lowered(content, era))
    {
        result.set("content", &content);
    }
    let is_error = result.get("isError") == Some("true");
    MethodResult {
        is_error,
        ..with_meta(&result, era)
    }
}

/// A result with the `_meta` of another server, except for who that is: this server answers. In the
/// modern era it says so in the same `_meta`.
fn with_meta(result: &Members, era: Era) -> MethodResult {
    let meta = result.get("_meta").and_then(Members::read);
    let mut meta = meta.unwrap_or_default();
    meta.remove("io.modelcontextprotocol/serverInfo");
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

/// Content that has a type which `era` does not know, in types that it knows; `None` if there is
/// nothing to do.
fn lowered(content: &str, era: Era) -> Option<String> {
    // An escape may hide the name of a type.
    let suspicious = ["audio", "resource_link", "\\u"];
    if !suspicious.iter().any(|word| content.contains(word)) {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let lowered = |item: &&RawValue| -> Option<String> {
        let known: Content = serde_json::from_str(item.get()).ok()?;
        matches!(known, Content::Audio { .. } | Content::ResourceLink { .. })
            .then(|| serde_json::to_string(&known.for_era(era)).ok())
            .flatten()
    };
    let items: Vec<String> = items
        .iter()
        .map(|item| lowered(item).unwrap_or_else(|| item.get().to_owned()))
        .collect();
    Some(format!("[{}]", items.join(",")))
}

/// The result of another server, with the members that clients of `era` know.
pub(super) fn method(result: &RawValue, era: Era) -> MethodResult {
    let mut members = Members::read(result.get()).unwrap_or_default();
    for added in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(added);
    }
    with_meta(&members, era)
}
