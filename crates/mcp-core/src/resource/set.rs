//! The resources of a server: declared without a service, then bound to one.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::template::{matches, variables};
use super::{Contents, Resource};
use crate::method::Answering;
use crate::tool::{Call, ToolError, schema};

/// A resource's published definition.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// The URI or the URI template.
    pub uri: Cow<'static, str>,
    /// A short name.
    pub name: Cow<'static, str>,
    /// What it holds.
    pub description: String,
    /// For example `application/json`.
    pub mime_type: Cow<'static, str>,
    /// Its definition as its own server wrote it, where it has another.
    pub imported: Option<Box<RawValue>>,
}

impl ResourceDefinition {
    /// True if the URI has variables.
    pub fn is_template(&self) -> bool {
        !variables(&self.uri).is_empty()
    }

    /// The definition as JSON.
    pub(crate) fn encode(&self) -> String {
        if let Some(imported) = &self.imported {
            return imported.get().to_owned();
        }
        let uri = if self.is_template() {
            "uriTemplate"
        } else {
            "uri"
        };
        json!({
            uri: self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        })
        .to_string()
    }
}

/// A read that is under way.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Contents, ToolError>> + Send + 'a>>;

/// A resource together with the service that it is read from.
pub trait BoundResource: Send + Sync {
    /// Starts reading `uri`; `None` if this is not its resource.
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<Reading<'a>>;

    /// The result of `completion/complete` with these parameters; `None` if [`Self::complete`]
    /// knows the values.
    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<Answering<'a>> {
        let _ = (params, call);
        None
    }

    /// Values for a variable of the template.
    fn complete<'a>(
        &'a self,
        argument: &'a str,
        value: &'a str,
    ) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;
}

/// The resources that are read from a service of type `S`, in the order in which they are listed.
pub struct ResourceSet<S> {
    resources: Vec<Declared<S>>,
}

struct Declared<S> {
    definition: ResourceDefinition,
    bind: fn(Arc<S>) -> Arc<dyn BoundResource>,
}

impl<S: Send + Sync + 'static> ResourceSet<S> {
    /// No resources.
    pub fn new() -> Self {
        Self {
            resources: Vec::new(),
        }
    }

    /// Adds one.
    ///
    /// # Panics
    /// When its URI is taken or it has no doc comment: both are found by the first test.
    #[must_use]
    pub fn with<R: Resource<Service = S>>(mut self) -> Self {
        let taken = self
            .resources
            .iter()
            .any(|resource| resource.definition.uri == R::URI);
        assert!(!taken, "resource {} is declared twice", R::URI);
        let (description, _) = schema::input::<R>();
        assert!(
            !description.is_empty(),
            "resource {} has no doc comment",
            R::URI
        );
        let definition = ResourceDefinition {
            uri: R::URI.into(),
            name: R::NAME.into(),
            description,
            mime_type: R::MIME_TYPE.into(),
            imported: None,
        };
        self.resources.push(Declared {
            definition,
            bind: |service| Arc::new(Bound::<R> { service }),
        });
        self
    }

    /// Hands the resources their service.
    pub fn bind(self, service: &Arc<S>) -> Vec<(ResourceDefinition, Arc<dyn BoundResource>)> {
        let bind =
            |resource: Declared<S>| (resource.definition, (resource.bind)(Arc::clone(service)));
        self.resources.into_iter().map(bind).collect()
    }
}

impl<S: Send + Sync + 'static> Default for ResourceSet<S> {
    fn default() -> Self {
        Self::new()
    }
}

struct Bound<R: Resource> {
    service: Arc<R::Service>,
}

impl<R: Resource> BoundResource for Bound<R> {
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<Reading<'a>> {
        let variables: Map<String, Value> = matches(R::URI, uri)?;
        let resource: R = serde_json::from_value(Value::Object(variables)).ok()?;
        Some(Box::pin(resource.read(&self.service, call)))
    }

    fn complete<'a>(
        &'a self,
        argument: &'a str,
        value: &'a str,
    ) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>> {
        Box::pin(R::complete(&self.service, argument, value))
    }
}
