//! Custom methods, beside those of the specification (seed 004, "custom methods").

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::registry::{Bound, Definition, Registry};
use crate::tool::{ArgumentError, Call, ToolError, parse_params};

/// A custom method. The implementing struct is its parameters, which may not deny unknown fields:
/// every request may carry `_meta`.
pub trait Method: DeserializeOwned + Send + 'static {
    /// Its name, with a namespace of its own: `custom/myMethod`.
    const NAME: &'static str;
    /// The service that it works on.
    type Service: Send + Sync + 'static;
    /// The `result`, which must be a JSON object.
    type Output: Serialize + Send;

    /// Answers one request.
    ///
    /// # Errors
    /// A [`ToolError`] becomes a JSON-RPC error.
    fn answer(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// A running call of a method.
pub type MethodFuture<'a> = BoxFuture<'a, Result<Json, ToolError>>;

/// A method together with the service that it works on.
pub trait BoundMethod: Send + Sync {
    /// Parses the parameters and starts the call.
    ///
    /// # Errors
    /// Invalid parameters; nothing was started.
    fn start<'a>(
        &'a self,
        params: &RawValue,
        call: &'a Call,
    ) -> Result<MethodFuture<'a>, ArgumentError>;
}

/// The methods of a server.
pub type MethodSet<S> = Registry<&'static str, S>;

/// The definition of a method is its name.
impl Definition for &'static str {
    type Bound = dyn BoundMethod;
    const NOUN: &'static str = "method";

    fn id(&self) -> &str {
        self
    }
}

impl<S: Send + Sync + 'static> MethodSet<S> {
    /// Adds a method.
    ///
    /// # Panics
    /// If its name is taken or has no namespace; the first test finds both.
    #[must_use]
    pub fn with<M: Method<Service = S>>(self) -> Self {
        let name = M::NAME;
        assert!(name.contains('/'), "method name {name:?} has no namespace");
        self.add(name, |service| {
            Arc::new(Bound::<&'static str, M, S>::new(service))
        })
    }
}

impl<M: Method> BoundMethod for Bound<&'static str, M, M::Service> {
    fn start<'a>(
        &'a self,
        params: &RawValue,
        call: &'a Call,
    ) -> Result<MethodFuture<'a>, ArgumentError> {
        let method: M = parse_params(params)?;
        Ok(Box::pin(async move {
            let output = method.answer(&self.service, call).await?;
            Json::from_serializable(&output).map_err(ToolError::unwritable)
        }))
    }
}
