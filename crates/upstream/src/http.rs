//! HTTP towards one service: no redirects, no repetition, no unbounded bodies.
//!
//! A server declares one [`Profile`] and makes one [`Client`] of it. A [`Request`] ends in a
//! [`Response`] or in a [`Failure`], which is a [`ToolError`](mcp_core::tool::ToolError) in the
//! words of the profile: `client.get(["api", "v1", "workflows"]).json::<Page>().await?`.

mod client;
mod failure;
mod profile;
mod request;
mod url;

pub use reqwest::header;
pub use reqwest::multipart;
pub use reqwest::{Method, RequestBuilder, StatusCode, Upgraded, Url};

pub use client::{Client, SetupError};
pub use failure::{Failure, Fault, JsonError, Refusal, Wording};
pub use profile::Profile;
pub use request::{Request, Response};
pub use url::{join, shown};
