//! `get_execution_file`

use std::borrow::Cow;

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};
use n8n_workflow::trace::Trace;
use upstream::redact::{HIDDEN, Redactor};

use super::find;
use crate::tools::prelude::*;

/// As tolerant as the decoder of Node.js, which nodes use.
const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// Bytes of a part. By default an answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 6_000;

/// Returns a file that a node put out, or a part of it: text, or base64 if it is not text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetExecutionFile {
    /// list_executions and run_workflow show the id.
    execution_id: Id,
    /// The file is in the output of this node, by default of the last one.
    node: Option<String>,
    /// The items of the output are counted from 0.
    #[serde(default)]
    item: u32,
    /// Name the file in the item's `$binary`, if it has several.
    property: Option<String>,
    /// The previous part returns it as `next_offset`.
    #[serde(default)]
    offset: u32,
    /// A part has at most 6000 bytes by default.
    max_bytes: Option<Bounded<16, 200_000>>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct FilePart {
    name: Option<String>,
    mime_type: Option<String>,
    /// The whole file has this many bytes.
    size: usize,
    text: Option<String>,
    base64: Option<String>,
    /// The rest starts here.
    next_offset: Option<usize>,
}

impl Tool for GetExecutionFile {
    const NAME: &'static str = "get_execution_file";
    const BOUNDS_ITS_RESULT: bool = true;
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = FilePart;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<FilePart, ToolError> {
        let execution = find(n8n, &self.execution_id, true).await?;
        if execution.data_too_large_to_display {
            return Err(ToolError::conflict(
                "The data of this execution are too large for n8n to return.",
            ));
        }
        let data = Trace::read(execution.data.as_deref());
        let (node, property) = (self.node.as_deref(), self.property.as_deref());
        let file = data.file(node, self.item as usize, property);
        let file = file.map_err(ToolError::invalid_argument)?;
        if file.id.is_some() {
            return Err(ToolError::conflict(
                "n8n keeps this file outside of the execution, as it does by default, and its API returns only files \
                 that are in executions. Let the workflow put its content into JSON (Extract from File). n8n's operator \
                 can also set N8N_DEFAULT_BINARY_DATA_MODE=default, which n8n is about to drop: it holds for later \
                 executions.",
            ));
        }
        let content = decode(&file.data).ok_or_else(|| {
            ToolError::conflict(
                "The `data` of this file are not base64: the node that made it put something else there.",
            )
        })?;
        let length = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get);
        let part = part(
            &content,
            self.offset as usize,
            length as usize,
            &n8n.redactor(),
        )?;
        Ok(FilePart {
            name: file.file_name.map(|name| n8n.redactor().text(&name)),
            mime_type: file.mime_type,
            size: content.len(),
            ..part
        })
    }
}

/// The bytes of base64 in any of its forms: with white space, without padding, URL-safe.
fn decode(data: &str) -> Option<Vec<u8>> {
    let digits = data.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let digits = digits.map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    });
    TOLERANT.decode(digits.collect::<Vec<u8>>()).ok()
}

/// The part of a file that begins at `offset`; in a text, which is redacted as a whole, that counts in
/// the redacted one.
fn part(
    content: &[u8],
    offset: usize,
    length: usize,
    redactor: &Redactor,
) -> Result<FilePart, ToolError> {
    let text = text(content, redactor);
    let size = text.as_ref().map_or(content.len(), String::len);
    if offset > 0 && offset >= size {
        return Err(ToolError::invalid_argument(format!(
            "`offset` {offset} is behind the end: the file has {size} bytes."
        )));
    }
    let end = offset.saturating_add(length).min(size);
    let mut part = FilePart::default();
    let end = match &text {
        Some(text) => {
            let (start, end) = (
                text.floor_char_boundary(offset),
                text.floor_char_boundary(end),
            );
            part.text = text.get(start..end).map(str::to_owned);
            end
        }
        None => {
            part.base64 = content.get(offset..end).map(|bytes| STANDARD.encode(bytes));
            end
        }
    };
    part.next_offset = (end < size).then_some(end);
    Ok(part)
}

/// The redacted text; `None` for bytes that are no text, unless there is something to redact in them.
fn text(content: &[u8], redactor: &Redactor) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let is_text = matches!(text, Cow::Borrowed(_)) && !text.contains('\0');
    let redacted = redactor.text(&text);
    let hidden = |text: &str| text.matches(HIDDEN).count();
    if is_text || hidden(&redacted) > hidden(&text) {
        return Some(redacted);
    }
    // NUL is removed, as in a text of UTF-16; it may also stand between two texts.
    let lines = redactor.text(&text.replace('\0', "\n"));
    (hidden(&lines) > hidden(&text)).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole_file_without_secrets() {
        let redactor = Redactor::new(true);
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let text = format!("{}{secret} {}", "ä€😀".repeat(40), "x".repeat(100));
        let other = [&b"caf\xe9 "[..], secret.as_bytes()].concat();
        let with_nul = [&b"a\0"[..], secret.as_bytes()].concat();
        let wide = format!("a {secret}");
        let wide: Vec<u8> = wide.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let image: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for (content, expected) in [
            (text.as_bytes(), text.replace(&secret, "***").into_bytes()),
            (&other, "caf\u{fffd} ***".into()),
            (b"caf\xe9", b"caf\xe9".to_vec()),
            (&with_nul, "a ***".into()),
            (&wide, "a ***".into()),
            (b"a\0b", b"a\0b".to_vec()),
            (b"\xff\xfea", b"\xff\xfea".to_vec()),
            (&image, image.clone()),
            (b"", Vec::new()),
        ] {
            for length in [16, 17, 18, 19, 5_000] {
                let (mut read, mut offset) = (Vec::new(), 0);
                loop {
                    let part = part(content, offset, length, &redactor).unwrap();
                    let bytes = part.base64.map(|part| STANDARD.decode(part).unwrap());
                    read.extend(bytes.or(part.text.map(String::into_bytes)).unwrap());
                    match part.next_offset {
                        Some(next) => assert!(std::mem::replace(&mut offset, next) < next),
                        None => break,
                    }
                }
                assert_eq!(read, expected);
            }
        }
        assert!(part(b"abc", 3, 16, &redactor).is_err());
    }
}
