//! Custom methods of a server.

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
use super::params::or_empty;
use crate::error::Error;

impl Server {
    /// Answers a method that is not part of the specification.
    pub(super) async fn custom(
        &self,
        method: &str,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let mut methods = self.features.methods.iter();
        let found = methods.find(|(name, _)| *name == method);
        let (name, bound) = found.ok_or_else(|| Error::MethodNotFound(method.to_owned()))?;
        let answer = bound.start(or_empty(context.raw())?, &context.call)?;
        let end = self.within_limits(name, context, answer);
        end.await.into_outcome(Outcome::from)
    }
}
