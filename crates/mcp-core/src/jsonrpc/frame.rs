//! What one line or one HTTP body holds: a message, or a batch of them.

use serde_json::value::RawValue;

use super::decode::{DecodeError, Envelope, Fault, decode_str, utf8};
use super::message::Message;

/// Everything that one line or one HTTP body can hold.
#[derive(Debug)]
pub enum Frame<'a> {
    /// A message of its own.
    Single(Message<'a>),
    /// A JSON array of messages, each of them decoded or refused by itself. Never empty.
    Batch(Vec<Result<Message<'a>, DecodeError<'a>>>),
}

impl<'a> Frame<'a> {
    /// Reads one message or one batch.
    ///
    /// # Errors
    /// The whole frame is refused when it is not UTF-8, not JSON, an empty batch, or a single
    /// message that is none. A bad item of a batch is refused alone.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError<'a>> {
        let text = utf8(bytes)?;
        if !text.trim_ascii_start().starts_with('[') {
            return decode_str(text).map(Self::Single);
        }
        // One pass is enough for items that are objects, as all are that anybody means.
        if let Ok(items) = serde_json::from_str::<Vec<Envelope<'_>>>(text)
            && !items.is_empty()
        {
            return Ok(Self::Batch(
                items.into_iter().map(Envelope::decode).collect(),
            ));
        }
        let items: Vec<&RawValue> = serde_json::from_str(text).map_err(DecodeError::parse)?;
        if items.is_empty() {
            return Err(DecodeError::invalid(None, Fault::EmptyBatch));
        }
        Ok(Self::Batch(
            items
                .into_iter()
                .map(|item| decode_str(item.get()))
                .collect(),
        ))
    }
}
