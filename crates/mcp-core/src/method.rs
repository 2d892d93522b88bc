//! Methods of one's own, beside those of the specification (seed 004, "custom methods").

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::tool::{ArgumentError, Call, ToolError, parse_arguments};

/// One method. The implementing struct is its parameters, which may not deny unknown fields: every
/// request may carry `_meta`.
pub trait Method: DeserializeOwned + Send + 'static {
    /// Its name, with a namespace of its own: `custom/myMethod`.
    const NAME: &'static str;
    /// What it works on.
    type Service: Send + Sync + 'static;
    /// The `result`, which must be a JSON object.
    type Output: Serialize + Send;

    /// Answers one request.
    ///
    /// # Errors
    /// Becomes a JSON-RPC error.
    fn answer(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// An answer that is being worked out.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Json, ToolError>> + Send + 'a>>;

/// A method together with the service that it works on.
pub trait BoundMethod: Send + Sync {
    /// Reads the parameters and starts.
    ///
    /// # Errors
    /// The parameters do not fit.
    fn start<'a>(
        &'a self,
        params: &RawValue,
        call: &'a Call,
    ) -> Result<Answering<'a>, ArgumentError>;
}

/// The methods of a server.
pub struct MethodSet<S> {
    methods: Vec<(&'static str, Bind<S>)>,
}

type Bind<S> = fn(Arc<S>) -> Arc<dyn BoundMethod>;

impl<S: Send + Sync + 'static> MethodSet<S> {
    /// No methods.
    pub fn new() -> Self {
        Self {
            methods: Vec::new(),
        }
    }

    /// Adds one.
    ///
    /// # Panics
    /// When its name is taken or has no namespace: both are found by the first test.
    #[must_use]
    pub fn with<M: Method<Service = S>>(mut self) -> Self {
        let taken = self.methods.iter().any(|(name, _)| *name == M::NAME);
        assert!(
            !taken && M::NAME.contains('/'),
            "method name {:?} is taken or bare",
            M::NAME
        );
        self.methods
            .push((M::NAME, |service| Arc::new(Bound::<M> { service })));
        self
    }

    /// Hands the methods their service.
    pub fn bind(self, service: &Arc<S>) -> Vec<(&'static str, Arc<dyn BoundMethod>)> {
        self.methods
            .into_iter()
            .map(|(name, bind)| (name, bind(Arc::clone(service))))
            .collect()
    }
}

impl<S: Send + Sync + 'static> Default for MethodSet<S> {
    fn default() -> Self {
        Self::new()
    }
}

struct Bound<M: Method> {
    service: Arc<M::Service>,
}

impl<M: Method> BoundMethod for Bound<M> {
    fn start<'a>(
        &'a self,
        params: &RawValue,
        call: &'a Call,
    ) -> Result<Answering<'a>, ArgumentError> {
        let method: M = parse_arguments(params)?;
        Ok(Box::pin(async move {
            let output = method.answer(&self.service, call).await?;
            Json::of(&output).map_err(|error| {
                ToolError::upstream("The result could not be written as JSON.").caused_by(error)
            })
        }))
    }
}
