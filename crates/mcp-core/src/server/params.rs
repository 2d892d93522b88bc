//! The parameters of a request, parsed once for all methods.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::jsonrpc::string;
use crate::meta::Meta;
use crate::tool::ArgumentError;

/// The known members, each not parsed yet. All are absent if the parameters cannot be parsed.
#[derive(Default, Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    pub(super) task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    /// The client asks for a task (2025-11-25).
    #[serde(borrow)]
    pub(super) task: Option<&'a RawValue>,
    #[serde(borrow)]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(super) meta: Option<Meta<'a>>,
    #[serde(borrow, rename = "inputResponses")]
    pub(super) responses: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestState")]
    pub(super) state: Option<&'a RawValue>,
    /// The reason why they cannot be parsed.
    #[serde(skip)]
    fault: Option<String>,
    #[serde(skip)]
    is_object: bool,
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
        read.unwrap_or_else(|fault| Self {
            fault: Some(fault),
            is_object,
            // Still needed to decide the era.
            meta: Meta::of_params(params),
            ..Self::default()
        })
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
        let name = text("name", self.name)?;
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
        text("uri", self.uri)
    }

    /// The id of a task.
    pub(super) fn task_id(&self) -> Result<Cow<'a, str>, Error> {
        text("taskId", self.task_id)
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

/// A required string parameter.
fn text<'a>(field: &str, value: Option<&'a RawValue>) -> Result<Cow<'a, str>, Error> {
    let value = value.ok_or_else(|| wrong(field, "Required field missing"))?;
    string(value.get()).ok_or_else(|| wrong(field, "must be a string"))
}

/// The error for the parameter `field`, which is invalid because of `reason`.
pub(super) fn wrong(field: &str, reason: &str) -> Error {
    Error::InvalidParams(ArgumentError::new(field, reason))
}
