//! The era of 2026-07-28.

use super::{Outcome, Server};
use crate::era::Hints;
use crate::error::Error;
use crate::jsonrpc::Request;
use crate::tool::Call;

impl Server {
    pub(super) async fn modern(
        &self,
        request: &Request<'_>,
        _: &Hints<'_>,
        _: &Call,
    ) -> Result<Outcome, Error> {
        Err(Error::MethodNotFound(request.method.clone().into_owned()))
    }
}
