//! The imports that every tool needs.

pub(crate) use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError, Toolset};
pub(crate) use n8n_workflow::{Id, Name};
pub(crate) use schemars::JsonSchema;
pub(crate) use serde::de::IgnoredAny;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Map, Value, json};
pub(crate) use serde_with::skip_serializing_none;
pub(crate) use upstream::http::Method;

pub(in crate::tools) use super::collection::{
    Collection, Deleted, Limit, refusal, refuse_blank, refuse_placeholder,
};
pub(crate) use crate::service::N8n;
