//! Values for an argument of a prompt or a variable of a template (`completion/complete`).

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use crate::method::MethodFuture;
use crate::tool::Call;

/// An item whose arguments can be completed.
pub trait Completes: Send + Sync {
    /// The whole result of `completion/complete`, for items that relay it; `None` if
    /// [`Self::complete`] gives the values.
    fn completion<'a>(&'a self, _params: &RawValue, _call: &'a Call) -> Option<MethodFuture<'a>> {
        None
    }

    /// Values for `argument` that start with `value`, best first.
    fn complete<'a>(&'a self, _argument: &'a str, _value: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}
