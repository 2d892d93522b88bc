//! Declares resources: one struct with the variables of the URI, and one [`Resource`] impl.
//!
//! A URI without variables (`docker://containers`) is one resource, which is listed; a URI with
//! variables (`docker://containers/{id}`) is a template for many resources.
//!
//! ```
//! use std::sync::Arc;
//!
//! use mcp_core::resource::{Resource, ResourceContents, ResourceSet};
//! use mcp_core::tool::{Call, ToolError};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// The log of one job.
//! #[derive(Deserialize, JsonSchema)]
//! struct JobLog {
//!     id: String,
//! }
//!
//! impl Resource for JobLog {
//!     const URI: &'static str = "jobs://{id}/log";
//!     const NAME: &'static str = "job log";
//!     const MIME_TYPE: &'static str = "text/plain";
//!     type Service = ();
//!
//!     async fn read(self, (): &(), _: &Call) -> Result<ResourceContents, ToolError> {
//!         match self.id.as_str() {
//!             "7" => Ok(ResourceContents::Text("started".to_owned())),
//!             id => Err(ToolError::not_found(format!("There is no job {id}."))),
//!         }
//!     }
//! }
//!
//! let resources = ResourceSet::new().with::<JobLog>().bind(&Arc::new(()));
//! assert!(resources[0].0.is_template());
//! ```

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::completion::Completes;
use crate::registry::{Bound, Definition, Registry};
use crate::tool::{Call, ToolError, schema};

/// A resource, or a template of resources. The fields of the implementing struct are the variables of
/// the URI, all of them strings; its doc comment is the description.
pub trait Resource: DeserializeOwned + JsonSchema + Send + 'static {
    /// The URI, in which `{name}` stands for one segment of a path (RFC 6570, level 1).
    const URI: &'static str;
    /// A short name.
    const NAME: &'static str;
    /// For example `application/json`.
    const MIME_TYPE: &'static str;
    /// The service that it is read from.
    type Service: Send + Sync + 'static;

    /// Reads it.
    ///
    /// # Errors
    /// [`ToolErrorKind::NotFound`](crate::tool::ToolErrorKind::NotFound) if there is no such
    /// resource.
    fn read(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<ResourceContents, ToolError>> + Send;

    /// Completions: values for the variable `argument` that start with `value`, best first.
    fn complete(
        service: &Self::Service,
        argument: &str,
        value: &str,
    ) -> impl Future<Output = Vec<String>> + Send {
        let _ = (service, argument, value);
        std::future::ready(Vec::new())
    }
}

/// The content of a resource.
#[derive(Clone, Debug)]
pub enum ResourceContents {
    /// Text, also JSON.
    Text(String),
    /// Binary data, sent as base64.
    Blob(Vec<u8>),
    /// The whole result of another server, unchanged.
    Relayed(Box<RawValue>),
}

/// A resource's published definition.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// The URI or the URI template.
    pub uri: Cow<'static, str>,
    /// A short name.
    pub name: Cow<'static, str>,
    /// Its content, in a sentence.
    pub description: String,
    /// For example `application/json`.
    pub mime_type: Cow<'static, str>,
    /// The original definition, if the resource is relayed from another server.
    pub relayed: Option<Box<RawValue>>,
}

impl ResourceDefinition {
    /// True if the URI has variables.
    pub fn is_template(&self) -> bool {
        !variables(&self.uri).is_empty()
    }

    /// The definition as JSON.
    pub(crate) fn encode(&self) -> String {
        if let Some(relayed) = &self.relayed {
            return relayed.get().to_owned();
        }
        let uri = ["uri", "uriTemplate"][usize::from(self.is_template())];
        json!({
            uri: self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        })
        .to_string()
    }
}

/// A running read.
pub type ReadFuture<'a> = BoxFuture<'a, Result<ResourceContents, ToolError>>;

/// A resource together with the service that it is read from.
pub trait BoundResource: Completes {
    /// Starts to read `uri`; `None` if it belongs to another resource.
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<ReadFuture<'a>>;
}

/// The resources that are read from a service of type `S`, in the order in which they are listed.
pub type ResourceSet<S> = Registry<ResourceDefinition, S>;

impl Definition for ResourceDefinition {
    type Bound = dyn BoundResource;
    const NOUN: &'static str = "resource";

    fn id(&self) -> &str {
        &self.uri
    }
}

impl<S: Send + Sync + 'static> ResourceSet<S> {
    /// Adds a resource or a template.
    ///
    /// # Panics
    /// If its URI is taken or it has no doc comment; the first test finds both.
    #[must_use]
    pub fn with<R: Resource<Service = S>>(self) -> Self {
        let (description, _) = schema::documented::<R>("resource", R::URI);
        let definition = ResourceDefinition {
            uri: R::URI.into(),
            name: R::NAME.into(),
            description,
            mime_type: R::MIME_TYPE.into(),
            relayed: None,
        };
        self.add(definition, |service| {
            Arc::new(Bound::<ResourceDefinition, R, S>::new(service))
        })
    }
}

impl<R: Resource> BoundResource for Bound<ResourceDefinition, R, R::Service> {
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<ReadFuture<'a>> {
        let variables: Map<String, Value> = matches(R::URI, uri)?;
        let resource: R = serde_json::from_value(Value::Object(variables)).ok()?;
        Some(Box::pin(resource.read(&self.service, call)))
    }
}

impl<R: Resource> Completes for Bound<ResourceDefinition, R, R::Service> {
    fn complete<'a>(&'a self, argument: &'a str, value: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(R::complete(&self.service, argument, value))
    }
}

/// The names of the variables in `template`, in order.
fn variables(template: &str) -> Vec<&str> {
    template
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .collect()
}

/// The variables that turn `template` into `uri`; `None` if it does not match.
///
/// A variable matches one or more characters, never a slash. Only level 1 of RFC 6570 is supported,
/// so matching is linear and a hostile URI cannot make it slow.
fn matches(template: &str, uri: &str) -> Option<Map<String, Value>> {
    let mut found = Map::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        uri = uri.strip_prefix(literal)?;
        let (name, after) = rest.split_once('}')?;
        let next = after.split('{').next().unwrap_or_default();
        let end = match next.chars().next() {
            Some(first) => uri.find(first)?,
            None => uri.len(),
        };
        let value = uri.get(..end)?;
        if value.is_empty() || value.contains('/') {
            return None;
        }
        found.insert(name.to_owned(), Value::String(percent_decoded(value)?));
        (template, uri) = (after, uri.get(end..)?);
    }
    (template == uri).then_some(found)
}

fn percent_decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_one_segment() {
        for (template, uri, expected) in [
            ("t://x/{id}/data", "t://x/12/data", json!({"id": "12"})),
            ("d://{a}/{b}", "d://x/y%20z", json!({"a": "x", "b": "y z"})),
            ("d://c", "d://c", json!({})),
            ("d://c", "d://c/", Value::Null),
            ("d://{a}", "d://x/y", Value::Null),
            ("d://{a}", "d://", Value::Null),
            ("d://{a}/logs", "d://x/stats", Value::Null),
            ("d://{a}", "d://%zz", Value::Null),
            ("d://{a}", "d://%ff", Value::Null),
        ] {
            let found = matches(template, uri).map(Value::Object);
            assert_eq!(found.unwrap_or_default(), expected, "{template} {uri}");
        }
    }

    #[test]
    fn variables_are_listed_in_order() {
        assert_eq!(variables("d://{a}/x/{b}"), ["a", "b"]);
        assert!(variables("d://a").is_empty());
    }
}
