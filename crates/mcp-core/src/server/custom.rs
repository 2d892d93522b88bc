//! Methods of the product's own.

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
use super::params::or_empty;
use crate::error::Error;

impl Server {
    /// Answers a method that is none of the specification's.
    pub(super) async fn custom(
        &self,
        method: &str,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let found = self
            .features
            .methods
            .iter()
            .find(|(name, _)| *name == method);
        let (name, bound) = found.ok_or_else(|| Error::MethodNotFound(method.to_owned()))?;
        let answering = bound.start(or_empty(context.raw)?, &context.call)?;
        self.end_of(name, context, answering).await
    }
}
