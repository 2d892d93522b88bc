//! Decodes one line or one HTTP body: a message, or a batch of messages.

use std::fmt;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::decode::{DecodeError, Fault, MAX_BATCH, decode_str, utf8};
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
        let messages = items(text)?.into_iter().map(|item| decode_str(item.get()));
        Ok(Self::Batch(messages.collect()))
    }
}

/// Reads the items of a batch. Stops at the limit: 4 MiB of `{}` would become 370 MB.
fn items(text: &str) -> Result<Vec<&RawValue>, DecodeError<'_>> {
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
struct Items<'v, 'a>(&'v mut Vec<&'a RawValue>);

impl<'a> Visitor<'a> for Items<'_, 'a> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;

    fn batch(count: usize) -> String {
        format!("[{}]", [REQUEST].repeat(count).join(","))
    }

    #[test]
    fn white_space_does_not_make_a_batch_a_message() {
        let frame = Frame::decode(REQUEST.as_bytes()).unwrap();
        assert!(matches!(frame, Frame::Single(Message::Request(_))));
        let spaced = format!(" \r\n\t{} \n", batch(2));
        let frame = Frame::decode(spaced.as_bytes()).unwrap();
        assert!(matches!(frame, Frame::Batch(messages) if messages.len() == 2));
    }

    #[test]
    fn batch_holds_one_to_fifty_messages() {
        let full = batch(MAX_BATCH);
        let Frame::Batch(messages) = Frame::decode(full.as_bytes()).unwrap() else {
            panic!("not a batch")
        };
        assert_eq!(messages.len(), MAX_BATCH);
        assert!(messages.iter().all(Result::is_ok));
        let numbers = format!("[{}0]", "0,".repeat(MAX_BATCH));
        for (frame, fault) in [
            ("[]", Fault::EmptyBatch),
            (" [ ] ", Fault::EmptyBatch),
            (&batch(MAX_BATCH + 1), Fault::LargeBatch),
            (&numbers, Fault::LargeBatch),
        ] {
            let error = Frame::decode(frame.as_bytes()).unwrap_err();
            assert_eq!((error.id, error.fault), (None, fault), "{frame}");
        }
    }

    #[test]
    fn batch_that_is_not_json_is_a_parse_error() {
        let full = batch(MAX_BATCH);
        for frame in ["[", "[{},", "[{}]x", "[1 2]", &full[..full.len() - 1]] {
            let error = Frame::decode(frame.as_bytes()).unwrap_err();
            assert!(
                matches!(error.fault, Fault::NotJson(_)),
                "{frame}: {error:?}"
            );
        }
    }

    #[test]
    fn invalid_item_is_an_error_of_that_item_only() {
        let frame = format!(r#"[1,{REQUEST},{{"id":"a"}},[],"x"]"#);
        let Frame::Batch(messages) = Frame::decode(frame.as_bytes()).unwrap() else {
            panic!("not a batch")
        };
        let faults: Vec<_> = messages
            .iter()
            .map(|message| message.as_ref().err().map(|error| &error.fault))
            .collect();
        let missing = Fault::Missing("jsonrpc");
        let no_object = Some(&Fault::NotAnObject);
        assert_eq!(
            faults,
            [no_object, None, Some(&missing), no_object, no_object]
        );
        let id = messages[2].as_ref().unwrap_err().id;
        assert_eq!(id.map(|id| id.as_json()), Some(r#""a""#));
    }
}
