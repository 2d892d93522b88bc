//! The parameters of a request, parsed once for all methods.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::jsonrpc::{Entries, string};
use crate::meta::Meta;
use crate::tool::{ArgumentError, is_longer, too_long};

/// Characters of the name of a tool, a prompt or an argument; the specification has 128 for tools.
pub(super) const MAX_NAME: usize = 128;
/// Characters of a URI. The work for a URI grows with its length: it is compared with templates and rules.
pub(super) const MAX_URI: usize = 8 * 1024;
/// Characters of the id of a task.
pub(super) const MAX_TASK_ID: usize = 1024;

/// The known members, each not parsed yet. All are absent if the parameters cannot be parsed.
#[derive(Default)]
pub(super) struct Params<'a> {
    pub(super) name: Option<&'a RawValue>,
    pub(super) uri: Option<&'a RawValue>,
    pub(super) task_id: Option<&'a RawValue>,
    arguments: Option<Cow<'a, RawValue>>,
    /// The client asks for a task (2025-11-25).
    pub(super) task: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    pub(super) meta: Option<Meta<'a>>,
    pub(super) responses: Option<&'a RawValue>,
    pub(super) state: Option<&'a RawValue>,
    /// All of them.
    pub(super) raw: Option<&'a RawValue>,
    /// The reason why they cannot be parsed.
    fault: Option<String>,
    is_object: bool,
}

impl<'a> Params<'a> {
    pub(super) fn read(params: Option<&'a RawValue>) -> Self {
        let Some(raw) = params else {
            return Self::default();
        };
        let Ok(mut members) = Entries::read(raw.get()) else {
            return Self {
                raw: params,
                fault: Some("params must be an object".to_owned()),
                ..Self::default()
            };
        };
        let meta = members.get("_meta");
        let meta = meta.filter(|_| members.twice.is_none()).map(Meta::read);
        let read = Self {
            name: members.get("name"),
            uri: members.get("uri"),
            task_id: members.get("taskId"),
            arguments: members.get("arguments").map(object_of_text),
            task: members.get("task"),
            cursor: members.get("cursor"),
            meta,
            responses: members.get("inputResponses"),
            state: members.get("requestState"),
            raw: params,
            fault: None,
            is_object: true,
        };
        match members.twice {
            None => read,
            // The era is decided by `_meta`, also if something else is wrong.
            Some(name) => Self {
                meta,
                raw: params,
                fault: Some(format!("duplicate field `{name}`")),
                is_object: true,
                ..Self::default()
            },
        }
    }

    /// All of them as JSON.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.raw.map(RawValue::get)
    }

    /// Returns an error if they could not be parsed.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.fault {
            Some(fault) => Err(wrong("params", fault)),
            None => Ok(()),
        }
    }

    /// The name of a tool or a prompt, and its arguments, by default an empty object.
    pub(super) fn named_call(&self) -> Result<(Cow<'a, str>, &RawValue), Error> {
        self.check()?;
        let name = text("name", self.name, MAX_NAME)?;
        let arguments = self.arguments()?;
        if !arguments.get().starts_with('{') {
            return Err(wrong("arguments", "must be a JSON object"));
        }
        Ok((name, arguments))
    }

    /// The arguments, of any type; by default an empty object.
    pub(super) fn arguments(&self) -> Result<&RawValue, Error> {
        or_empty(self.arguments.as_deref())
    }

    pub(super) fn uri(&self) -> Result<Cow<'a, str>, Error> {
        text("uri", self.uri, MAX_URI)
    }

    pub(super) fn task_id(&self) -> Result<Cow<'a, str>, Error> {
        text("taskId", self.task_id, MAX_TASK_ID)
    }

    /// Returns an error if there is a cursor: every list is one page, so clients never get one.
    pub(super) fn check_cursor(&self) -> Result<(), Error> {
        match self.cursor {
            Some(_) => Err(wrong("cursor", "is not a cursor of this server")),
            None => Ok(()),
        }
    }

    /// The members of `_meta`; none if it cannot be used.
    pub(super) fn meta(&self) -> Meta<'a> {
        let meta = self.meta.filter(|meta| meta.fault.is_none());
        meta.unwrap_or_default()
    }

    /// `_meta` with the checks of the modern era; `None` if it is absent.
    pub(super) fn modern_meta(&self) -> Result<Option<Meta<'a>>, Error> {
        let malformed =
            |field: &str, reason: &str| Error::Malformed(ArgumentError::new(field, reason));
        if let Some(fault) = self.fault.as_ref().filter(|_| self.is_object) {
            return Err(malformed("params", fault));
        }
        match self.meta {
            Some(Meta {
                fault: Some(fault), ..
            }) => Err(malformed("_meta", fault)),
            meta => Ok(meta),
        }
    }
}

/// The arguments; the object in a text that holds JSON, as some clients send them.
fn object_of_text(arguments: &RawValue) -> Cow<'_, RawValue> {
    let text = string(arguments.get()).filter(|text| text.trim_start().starts_with('{'));
    let object = text.and_then(|text| RawValue::from_string(text.into_owned()).ok());
    object.map_or(Cow::Borrowed(arguments), Cow::Owned)
}

/// `raw`, by default an empty object.
pub(super) fn or_empty(raw: Option<&RawValue>) -> Result<&RawValue, Error> {
    match raw {
        Some(raw) => Ok(raw),
        None => serde_json::from_str("{}").map_err(|_| Error::Internal),
    }
}

/// Deserializes an object, for `deserialize_with`: a serde struct would read an array as its fields in order.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    if !raw.get().starts_with('{') {
        return Err(D::Error::custom("expected an object"));
    }
    serde_json::from_str(raw.get()).map_err(D::Error::custom)
}

/// A required string parameter of at most `max` characters.
fn text<'a>(field: &str, value: Option<&'a RawValue>, max: usize) -> Result<Cow<'a, str>, Error> {
    let value = value.ok_or_else(|| wrong(field, "Required field missing"))?;
    let value = string(value.get()).ok_or_else(|| wrong(field, "must be a string"))?;
    check_length(field, &value, max)?;
    Ok(value)
}

/// Checks that a text of the caller has at most `max` characters.
pub(super) fn check_length(field: &str, text: &str, max: usize) -> Result<(), Error> {
    match is_longer(text, max) {
        true => Err(wrong(field, &too_long(max))),
        false => Ok(()),
    }
}

/// The error for the parameter `field`, which is invalid because of `reason`.
pub(super) fn wrong(field: &str, reason: &str) -> Error {
    Error::InvalidParams(ArgumentError::new(field, reason))
}
