//! The parameters of a request, parsed once for all methods.

use std::borrow::Cow;
use std::{fmt, mem};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::jsonrpc::{member, string};
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
    arguments: Option<&'a RawValue>,
    /// The client asks for a task (2025-11-25).
    pub(super) task: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    pub(super) meta: Option<Meta<'a>>,
    pub(super) responses: Option<&'a RawValue>,
    pub(super) state: Option<&'a RawValue>,
    source: Source<'a>,
    /// The reason why they cannot be parsed.
    fault: Option<String>,
    is_object: bool,
}

/// The text that parameters were read from.
enum Source<'a> {
    /// Their own JSON, if there are any.
    Params(Option<&'a RawValue>),
    /// The request that they belong to.
    Request(&'a str),
}

impl Default for Source<'_> {
    fn default() -> Self {
        Self::Params(None)
    }
}

impl<'a> Params<'a> {
    pub(super) fn read(params: Option<&'a RawValue>) -> Self {
        let Some(params) = params else {
            return Self::default();
        };
        // A serde struct would read an array as its fields in order.
        let is_object = params.get().starts_with('{');
        let read = match is_object {
            true => serde_json::from_str(params.get()).map_err(|error| error.to_string()),
            false => Err("params must be an object".to_owned()),
        };
        let mut read: Self = read.unwrap_or_else(|fault| Self {
            fault: Some(fault),
            is_object,
            // Still needed to decide the era.
            meta: Meta::of_params(params),
            ..Self::default()
        });
        read.source = Source::Params(Some(params));
        read
    }

    /// Notes that they were read as a part of this request.
    pub(super) fn is_of_request(&mut self, request: &'a str) {
        self.source = Source::Request(request);
    }

    /// All of them as JSON.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.source {
            Source::Params(params) => params.map(RawValue::get),
            Source::Request(request) => member(request, "params"),
        }
    }

    /// The same for methods that read them by themselves.
    pub(super) fn raw(&self) -> Option<&'a RawValue> {
        serde_json::from_str(self.text()?).ok()
    }

    /// Returns an error if they could not be parsed.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.fault {
            Some(fault) => Err(wrong("params", fault)),
            None => Ok(()),
        }
    }

    /// The name of a tool or a prompt, and its arguments, by default an empty object.
    pub(super) fn named_call(&self) -> Result<(Cow<'a, str>, &'a RawValue), Error> {
        self.check()?;
        let name = text("name", self.name, MAX_NAME)?;
        let arguments = self.arguments()?;
        if !arguments.get().starts_with('{') {
            return Err(wrong("arguments", "must be a JSON object"));
        }
        Ok((name, arguments))
    }

    /// The arguments, of any type; by default an empty object.
    pub(super) fn arguments(&self) -> Result<&'a RawValue, Error> {
        let given = self.arguments.filter(|given| given.get() != "null");
        or_empty(given)
    }

    /// The URI of a resource.
    pub(super) fn uri(&self) -> Result<Cow<'a, str>, Error> {
        text("uri", self.uri, MAX_URI)
    }

    /// The id of a task.
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

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "uri")]
    Uri,
    #[serde(rename = "taskId")]
    TaskId,
    #[serde(rename = "arguments")]
    Arguments,
    #[serde(rename = "task")]
    Task,
    #[serde(rename = "cursor")]
    Cursor,
    #[serde(rename = "_meta")]
    Meta,
    #[serde(rename = "inputResponses")]
    Responses,
    #[serde(rename = "requestState")]
    State,
    #[serde(other)]
    Other,
}

/// Only from an object. By hand, since what serde derives moves the whole struct twice.
impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut params = Self::default();
        ParamsReader(&mut params).deserialize(deserializer)?;
        Ok(params)
    }
}

/// Reads the members into parameters that have none yet.
pub(super) struct ParamsReader<'r, 'a>(pub(super) &'r mut Params<'a>);

impl<'de: 'a, 'a> DeserializeSeed<'de> for ParamsReader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de: 'a, 'a> Visitor<'de> for ParamsReader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(params) = self;
        let mut seen = [false; 9];
        while let Some(key) = map.next_key::<Key>()? {
            let (at, name, member) = match key {
                Key::Name => (0, "name", &mut params.name),
                Key::Uri => (1, "uri", &mut params.uri),
                Key::TaskId => (2, "taskId", &mut params.task_id),
                Key::Arguments => (3, "arguments", &mut params.arguments),
                Key::Task => (4, "task", &mut params.task),
                Key::Cursor => (5, "cursor", &mut params.cursor),
                Key::Responses => (6, "inputResponses", &mut params.responses),
                Key::State => (7, "requestState", &mut params.state),
                Key::Meta => {
                    if mem::replace(&mut seen[8], true) {
                        return Err(A::Error::duplicate_field("_meta"));
                    }
                    params.meta = map.next_value()?;
                    continue;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if mem::replace(&mut seen[at], true) {
                return Err(A::Error::duplicate_field(name));
            }
            *member = map.next_value()?;
        }
        Ok(())
    }
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
