//! An HTTP client of one service: no redirects, no retries, bounded bodies.
//!
//! A server declares one [`ServiceProfile`] and makes one [`Client`] of it. A [`Request`] ends in a
//! [`Response`] or in an [`HttpFailure`], which is a [`ToolError`](mcp_core::tool::ToolError) in the
//! texts of the profile: `client.get(["api", "v1", "workflows"]).json::<Page>().await?`.

mod client;
mod failure;
mod request;

pub use reqwest::header;
pub use reqwest::multipart;
pub use reqwest::{Method, RequestBuilder, StatusCode, Url};

pub use client::{Client, ServiceProfile, SetupError, display_url, join_path};
pub use failure::{ErrorResponse, FailureTexts, Fault, HttpFailure, JsonError};
pub use request::{Request, Response, whole_characters};
