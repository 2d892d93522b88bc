//! Decodes one line or one HTTP body: a message, or a batch of messages.

use std::fmt;

use serde::de::{Deserialize, Deserializer as _, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::decode::{DecodeError, Envelope, Fault, MAX_BATCH, decode_str, utf8};
use super::message::Message;

/// The content of one line or one HTTP body.
#[derive(Debug)]
pub enum Frame<'a> {
    /// One message.
    Single(Message<'a>),
    /// A JSON array of messages, each of which may be invalid. Never empty.
    Batch(Vec<Result<Message<'a>, DecodeError<'a>>>),
}

impl<'a> Frame<'a> {
    /// Reads one message or one batch.
    ///
    /// # Errors
    /// The frame is not UTF-8, not JSON, an empty batch, a batch of more than [`MAX_BATCH`] messages,
    /// or an invalid message. An invalid item of a batch is an error of that item only.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError<'a>> {
        let text = utf8(bytes)?;
        if !text.trim_ascii_start().starts_with('[') {
            return decode_str(text).map(Self::Single);
        }
        // One pass is enough if all items are objects, which is the normal case.
        if let Ok(items) = items(text) {
            let messages = items.into_iter().map(Envelope::decode);
            return Ok(Self::Batch(messages.collect()));
        }
        let items = items::<&RawValue>(text)?;
        let messages = items.into_iter().map(|item| decode_str(item.get()));
        Ok(Self::Batch(messages.collect()))
    }
}

/// Reads the items of a batch. Stops at the limit: 4 MiB of `{}` would become 370 MB.
fn items<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>, DecodeError<'a>> {
    let mut items = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer.deserialize_seq(Items(&mut items));
    match read.and_then(|()| deserializer.end()) {
        Ok(()) if items.is_empty() => Err(DecodeError::invalid(None, Fault::EmptyBatch)),
        Ok(()) => Ok(items),
        Err(error) if error.is_data() && items.len() == MAX_BATCH => {
            Err(DecodeError::invalid(None, Fault::LargeBatch))
        }
        Err(error) => Err(error.into()),
    }
}

/// Fills the vector with at most [`MAX_BATCH`] items.
struct Items<'v, T>(&'v mut Vec<T>);

impl<'a, T: Deserialize<'a>> Visitor<'a> for Items<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut batch: A) -> Result<(), A::Error> {
        while self.0.len() < MAX_BATCH {
            match batch.next_element()? {
                Some(item) => self.0.push(item),
                None => return Ok(()),
            }
        }
        match batch.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom("too many")),
            None => Ok(()),
        }
    }
}
