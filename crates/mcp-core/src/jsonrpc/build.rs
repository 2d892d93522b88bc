//! Responses, and JSON that is written already.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Id;

/// One response.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// `None`, if the request has no readable id, becomes `null`.
    pub id: Option<Id<'a>>,
    /// The `result`, or the `error` object.
    pub outcome: Result<Json, ErrorObject>,
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ErrorObject {
    /// The kind of error, as a code of the peer's dialect.
    pub code: i32,
    /// One sentence.
    pub message: String,
    /// Details that help the client to diagnose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Response<'_> {
    /// Appends the message to `out`, without a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        let id = self.id.as_ref().map_or("null", Id::as_json);
        let (member, body) = match &self.outcome {
            Ok(result) => (r#","result":"#, Cow::Borrowed(result.as_str())),
            Err(error) => (r#","error":"#, Cow::Owned(json!(error).to_string())),
        };
        for part in [r#"{"jsonrpc":"2.0","id":"#, id, member, &*body] {
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b'}');
    }
}

/// One serialised JSON value. Clones share it: lists and definitions are sent in many responses.
#[derive(Clone, Debug)]
pub struct Json(Arc<String>);

impl Json {
    /// Serialises `value`.
    ///
    /// # Errors
    /// A `Serialize` implementation fails, or a map has a key that is not a string.
    pub fn from_serializable(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(Self::from)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self(Arc::new(text))
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        raw.get().to_owned().into()
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        value.to_string().into()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok((&*raw).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_encoded_as_json_rpc() {
        let raw = RawValue::from_string("7".to_owned()).unwrap();
        let result = Json::from(r#"{"n":1e400}"#.to_owned());
        let error = |data| ErrorObject {
            code: -32000,
            message: "no".to_owned(),
            data,
        };
        for (id, outcome, expected) in [
            (Some(&raw), Ok(result), r#""id":7,"result":{"n":1e400}"#),
            (
                Some(&raw),
                Err(error(Some(json!({"a": 1})))),
                r#""id":7,"error":{"code":-32000,"message":"no","data":{"a":1}}"#,
            ),
            (
                None,
                Err(error(None)),
                r#""id":null,"error":{"code":-32000,"message":"no"}"#,
            ),
        ] {
            let (id, mut written) = (id.and_then(|id| Id::new(id)), Vec::new());
            Response { id, outcome }.write(&mut written);
            let expected = format!(r#"{{"jsonrpc":"2.0",{expected}}}"#);
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
