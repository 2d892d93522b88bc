//! How a resource is declared: one struct that is the variables of its URI, and one [`Resource`]
//! impl.
//!
//! A URI without variables (`docker://containers`) is a resource of its own and is listed; one with
//! variables (`docker://containers/{id}`) is a template for many.

mod set;
mod template;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::tool::{Call, ToolError};

pub use set::{BoundResource, ReadFuture, ResourceDefinition, ResourceKind, ResourceSet};

/// One resource, or one template of resources. The implementing struct is the variables of the URI,
/// all of them strings; its doc comment is the description.
pub trait Resource: DeserializeOwned + JsonSchema + Send + 'static {
    /// The URI, in which `{name}` stands for one segment of a path (RFC 6570, level 1).
    const URI: &'static str;
    /// A short name.
    const NAME: &'static str;
    /// For example `application/json`.
    const MIME_TYPE: &'static str;
    /// What it is read from.
    type Service: Send + Sync + 'static;

    /// Reads it.
    ///
    /// # Errors
    /// [`ToolErrorKind::NotFound`](crate::tool::ToolErrorKind::NotFound) where the variables name
    /// nothing.
    fn read(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<ResourceContents, ToolError>> + Send;

    /// Values for the variable `argument` that start with `value`, the best first.
    fn complete(
        service: &Self::Service,
        argument: &str,
        value: &str,
    ) -> impl Future<Output = Vec<String>> + Send {
        let _ = (service, argument, value);
        std::future::ready(Vec::new())
    }
}

/// What a resource holds.
#[derive(Clone, Debug)]
pub enum ResourceContents {
    /// Text, also JSON.
    Text(String),
    /// Anything else; travels as base64.
    Blob(Vec<u8>),
    /// The whole result, as another server wrote it.
    Relayed(Box<RawValue>),
}
