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

mod set;
mod template;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::tool::{Call, ToolError};

pub use set::{BoundResource, ReadFuture, ResourceDefinition, ResourceKind, ResourceSet};

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
