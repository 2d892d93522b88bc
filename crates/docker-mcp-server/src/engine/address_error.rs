//! The error of an address that can never work.

use std::error::Error;
use std::fmt::{self, Display};

/// The reason why an address, or the configuration of docker, can never work.
#[derive(Debug)]
pub(crate) struct AddressError(String);

impl AddressError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns a function that puts the place of an error before it.
    pub(crate) fn at<E: Display>(place: impl Display) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("{place}: {error}"))
    }
}

impl Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AddressError {}
