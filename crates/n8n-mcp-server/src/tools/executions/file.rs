//! `get_execution_file`

use std::borrow::Cow;

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};
use n8n_workflow::trace::ResultData;
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
    /// From run_workflow or list_executions.
    execution_id: Id,
    /// Default: the last node.
    node: Option<String>,
    /// Number of the item in its output, from 0.
    #[serde(default)]
    item: u32,
    /// Name in the item's `$binary`; default: the only one.
    property: Option<String>,
    /// Previous next_offset.
    #[serde(default)]
    offset: u32,
    /// Default 6000.
    max_bytes: Option<Bounded<16, 200_000>>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct FilePart {
    name: Option<String>,
    mime_type: Option<String>,
    /// Bytes of the whole file.
    size: usize,
    text: Option<String>,
    base64: Option<String>,
    /// Start of the rest.
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
        let data = ResultData::read(execution.data.as_deref());
        let (node, property) = (self.node.as_deref(), self.property.as_deref());
        let file = data.file(node, self.item as usize, property);
        let file = file.map_err(ToolError::invalid_argument)?;
        if file.id.is_some() {
            return Err(ToolError::conflict(
                "n8n keeps this file outside of the execution, and its API returns only files that are in \
                 executions. Let the workflow put its content into JSON (Extract from File), or let n8n's \
                 operator set N8N_DEFAULT_BINARY_DATA_MODE=default, which holds for later executions.",
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

/// The redacted text; `None` for bytes that are no text. Also a text in another encoding in which there
/// is something to redact.
fn text(content: &[u8], redactor: &Redactor) -> Option<String> {
    let (text, is_text) = match utf16(content) {
        Some(text) => (Cow::Owned(text), true),
        None => {
            let is_utf8 = std::str::from_utf8(content).is_ok();
            let is_text = is_utf8 && !content.contains(&0);
            (String::from_utf8_lossy(content), is_text)
        }
    };
    let redacted = redactor.text(&text);
    let hidden = |text: &str| text.matches(HIDDEN).count();
    if is_text || hidden(&redacted) > hidden(&text) {
        return Some(redacted);
    }
    // NUL is removed, as in a text of UTF-16; it may also stand between two texts.
    let lines = redactor.text(&text.replace('\0', "\n"));
    (hidden(&lines) > hidden(&text)).then_some(lines)
}

/// The text, if these bytes begin with the mark of UTF-16 and are valid.
fn utf16(content: &[u8]) -> Option<String> {
    let (mark, rest) = content.split_at_checked(2)?;
    let unit = match mark {
        [0xff, 0xfe] => u16::from_le_bytes,
        [0xfe, 0xff] => u16::from_be_bytes,
        _ => return None,
    };
    let (pairs, odd) = rest.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().copied().map(unit).collect();
    odd.is_empty().then(|| String::from_utf16(&units).ok())?
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
        let utf16 = |is_little: bool| -> Vec<u8> {
            let units = format!("\u{feff}ä {secret}");
            let bytes = |unit: u16| match is_little {
                true => unit.to_le_bytes(),
                false => unit.to_be_bytes(),
            };
            units.encode_utf16().flat_map(bytes).collect()
        };
        let image: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for (content, expected) in [
            (text.as_bytes(), text.replace(&secret, "***").into_bytes()),
            (&other, "caf\u{fffd} ***".into()),
            (b"caf\xe9", b"caf\xe9".to_vec()),
            (&with_nul, "a\n***".into()),
            (&utf16(true)[4..], " ***".into()),
            (&utf16(true), "ä ***".into()),
            (&utf16(false), "ä ***".into()),
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

    #[test]
    fn base64_is_decoded_in_all_its_forms() {
        for (data, expected) in [
            ("+/8=", Some(&[0xfb, 0xff][..])),
            ("-_8", Some(&[0xfb, 0xff])),
            ("+/\r\n8=\n", Some(&[0xfb, 0xff])),
            ("", Some(&[])),
            ("password: hunter2", None),
        ] {
            assert_eq!(decode(data).as_deref(), expected, "{data}");
        }
    }
}
