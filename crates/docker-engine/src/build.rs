//! Builds: the files that the engine gets, and the images that they name.

mod context;
mod dockerfile;
mod dockerignore;
mod fetch;

pub use context::{DOCKERFILE, pack};
pub use dockerfile::{BaseImage, BuildImages, bases, images};
pub use fetch::{frontend, reaches_host};
