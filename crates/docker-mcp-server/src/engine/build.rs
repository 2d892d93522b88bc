//! Builds: the files that the engine gets, and the images that they name.

mod context;
mod dockerfile;
mod dockerignore;
mod fetch;

pub(crate) use context::{DOCKERFILE, pack};
pub(crate) use dockerfile::{bases, images};
pub(crate) use fetch::{frontend, reaches_host};
