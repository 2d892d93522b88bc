//! The client of the library, with its types converted to JSON.

use anyhow::{Context, bail};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams,
};
use rmcp::service::{NotificationContext, RoleClient, RunningService, ServiceError};
use serde_json::{Value, json, to_value};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Forwards every progress notification.
pub(crate) struct Steps(UnboundedSender<Value>);

impl Steps {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Value>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }
}

impl ClientHandler for Steps {
    async fn on_progress(
        &self,
        step: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // The receiver is gone after the check.
        let _ = self
            .0
            .send(json!([step.progress, step.total, step.message]));
    }
}

/// A connected client.
pub(crate) struct Peer {
    pub(crate) client: RunningService<RoleClient, Steps>,
    pub(crate) seen: UnboundedReceiver<Value>,
}

impl Peer {
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let server = self.client.peer_info().context("no server info")?;
        Ok(server.protocol_version.to_string())
    }

    /// Returns the names of all tools, the URIs of all resources, the names of all prompts.
    pub(crate) async fn names(&self) -> anyhow::Result<[Vec<String>; 3]> {
        let tools = self.client.list_all_tools().await?;
        let resources = self.client.list_all_resources().await?;
        let prompts = self.client.list_all_prompts().await?;
        Ok([
            tools
                .into_iter()
                .map(|tool| tool.name.into_owned())
                .collect(),
            resources
                .into_iter()
                .map(|resource| resource.uri.clone())
                .collect(),
            prompts.into_iter().map(|prompt| prompt.name).collect(),
        ])
    }

    /// The whole result of a tool.
    pub(crate) async fn call(&self, name: &'static str, arguments: Value) -> anyhow::Result<Value> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(name).with_arguments(arguments);
        Ok(to_value(self.client.call_tool(params).await?)?)
    }

    /// The only content of a resource.
    pub(crate) async fn read(&self, uri: &str) -> anyhow::Result<Value> {
        let params = ReadResourceRequestParams::new(uri);
        let mut result = to_value(self.client.read_resource(params).await?)?;
        Ok(result["contents"][0].take())
    }

    /// The only text of a prompt.
    pub(crate) async fn prompt(&self, name: &str, arguments: Value) -> anyhow::Result<Value> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let mut result = to_value(self.client.get_prompt(params).await?)?;
        Ok(result["messages"][0]["content"]["text"].take())
    }
}

/// Returns the code of the error that the server answered with.
pub(crate) fn refused(outcome: anyhow::Result<Value>) -> anyhow::Result<i32> {
    match outcome {
        Ok(result) => bail!("{result} instead of an error"),
        Err(error) => match error.downcast::<ServiceError>()? {
            ServiceError::McpError(error) => Ok(error.code.0),
            other => bail!(other),
        },
    }
}
