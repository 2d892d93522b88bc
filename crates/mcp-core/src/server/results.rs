//! Results of tools in the form of an era: those of our own tools, and those that other servers have given.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::SERVER_INFO;
use super::answer::Answer;
use super::clients::RequestClient;
use crate::era::Era;
use crate::error::{Error, one_line};
use crate::jsonrpc::{Json, Members, members, quoted};
use crate::revision::Revision;
use crate::tool::{ArgumentError, CallClient as _, Content, ToolDefinition, ToolError, ToolResult};

/// Returns the answer to a call of `client` whose tool has ended.
pub(super) fn conclude(
    era: Era,
    client: &RequestClient,
    result: Result<ToolResult, ToolError>,
) -> Result<Answer, Error> {
    let has_text = !client.info().capabilities.structured_only;
    match result {
        Ok(ToolResult::Relayed(result)) => Ok(relayed_tool(result, era, has_text)),
        Ok(ToolResult::Structured(json)) => Ok(structured(&json, era, has_text).into()),
        Ok(ToolResult::Content(content)) => {
            let content: Vec<Content> = content.iter().map(|item| item.for_era(era)).collect();
            Ok(json!({"content": content, "isError": false}).into())
        }
        Err(error) => match client.questions_of(&error) {
            Some(questions) => Ok(Answer::NeedsInput(questions)),
            None if error.is_rpc_error(era) => Err(error.into()),
            None => Ok(failed(error.message())),
        },
    }
}

/// Returns the answer to a call with invalid arguments.
pub(super) fn bad_arguments(name: &str, era: Era, bad: ArgumentError) -> Result<Answer, Error> {
    // SEP-1303 (2025-11-25): the model can correct its arguments only if it sees the error.
    if era.knows(Revision::V2025_11_25) {
        let words = format!("Invalid arguments for {name}: {}", one_line(&bad));
        return Ok(failed(&words));
    }
    Err(Error::InvalidParams(bad))
}

/// Adds the schema of the invalid argument.
pub(super) fn with_schema(definition: &ToolDefinition, error: ArgumentError) -> ArgumentError {
    let property = definition.input_schema["properties"].get(&error.field);
    let schema = property.cloned().map(Box::new);
    ArgumentError { schema, ..error }
}

/// The `CallToolResult` of a structured result, whose text is its JSON, escaped; without `has_text` it is left out where
/// the client gets the structure.
fn structured(json: &Json, era: Era, has_text: bool) -> Json {
    let json = json.as_str();
    let is_known = era.knows(Revision::V2025_06_18);
    let content = match is_known && !has_text {
        true => "[]".to_owned(),
        false => format!(r#"[{{"type":"text","text":{}}}]"#, quoted(json)),
    };
    let structure = match is_known {
        true => format!(r#","structuredContent":{json}"#),
        false => String::new(),
    };
    Json::from(format!(
        r#"{{"content":{content}{structure},"isError":false}}"#
    ))
}

pub(super) fn failed(message: &str) -> Answer {
    let result = json!({"content": [Content::text(message)], "isError": true});
    Answer::of_tool(result.into(), true)
}

/// The `CallToolResult` of another server, without members that `era` does not know; without `has_text`
/// also without a text that only repeats the structure.
fn relayed_tool(mut result: Members, era: Era, has_text: bool) -> Answer {
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
    with_meta(&result, era)
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

/// The answer with the result of another server, whose `_meta` has no `serverInfo`: in the modern era the other members
/// stand beside this server's `serverInfo`.
fn with_meta(result: &Members, era: Era) -> Answer {
    // Most results have nothing else in it.
    let has_more = |meta: &&str| {
        members(meta).is_some_and(|mut members| members.any(|(name, _)| name != SERVER_INFO))
    };
    let meta = result.get("_meta").filter(has_more);
    let mut meta = meta.and_then(Members::read).unwrap_or_default();
    meta.remove(SERVER_INFO);
    let failed = result.get("isError") == Some("true");
    let (ours, theirs) = match era {
        Era::Modern => (meta.inner(), None),
        _ if meta.is_empty() => (String::new(), None),
        _ => (String::new(), Some(meta.encode())),
    };
    Answer::Result {
        json: Json::from(result.encode_with("_meta", theirs.as_deref())),
        meta: ours,
        failed,
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
pub(super) fn relayed(result: &RawValue, era: Era) -> Answer {
    let mut members = Members::read(result.get()).unwrap_or_default();
    for added in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(added);
    }
    with_meta(&members, era)
}
