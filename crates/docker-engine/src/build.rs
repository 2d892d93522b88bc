//! Builds: the files that the engine gets, and the images that they name.

mod context;
mod dockerfile;
mod dockerignore;

pub use context::{DOCKERFILE, pack};
pub use dockerfile::{BuildImages, images};
