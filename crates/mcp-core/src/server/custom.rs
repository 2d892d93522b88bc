//! Methods of the product's own.

use serde_json::value::RawValue;

use super::tools::or_empty;
use super::{Outcome, Server};
use crate::error::{BadParam, Error};
use crate::tool::Call;

impl Server {
    /// Answers a method that is none of the specification's.
    pub(super) async fn custom(
        &self,
        method: &str,
        params: Option<&RawValue>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let found = self.offer.methods.iter().find(|(name, _)| *name == method);
        let (name, bound) = found.ok_or_else(|| Error::MethodNotFound(method.to_owned()))?;
        let answering = bound
            .start(or_empty(params)?, call)
            .map_err(|error| Error::InvalidParams(BadParam::new(error.field, error.reason)))?;
        match self.within_limits(name, call, answering).await {
            Ok(json) => Ok(json.into()),
            Err(error) => Self::interrupted(error),
        }
    }
}
