//! A small server on the official Rust SDK, over stdio.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};

/// Counts the running calls of `wait`.
#[derive(Clone, Default)]
struct SmallServer(Arc<AtomicUsize>);

type Context = RequestContext<RoleServer>;

/// Converts JSON to a type of the SDK.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ServerHandler for SmallServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts();
        ServerConfig::new(capabilities.build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let nothing = json!({"type": "object", "properties": {}});
        let number = json!({"type": "integer"});
        let two = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
        let sum = json!({"type": "object", "properties": {"sum": number}, "required": ["sum"]});
        typed(json!({"tools": [
            {"name": "add", "description": "Adds two numbers.", "inputSchema": two, "outputSchema": sum},
            {"name": "fail", "description": "Fails.", "inputSchema": nothing},
            {"name": "wait", "description": "Waits until it is cancelled.", "inputSchema": nothing},
            {"name": "waiting", "description": "Returns the number of waiting calls.", "inputSchema": nothing, "outputSchema": sum},
            {"name": "ask", "description": "Asks the user for a name.", "inputSchema": nothing},
        ]}))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let sum = |sum: i64| Ok(CallToolResult::structured(json!({"sum": sum})).into());
        match request.name.as_ref() {
            "add" => sum(arguments["a"].as_i64().unwrap_or_default()
                + arguments["b"].as_i64().unwrap_or_default()),
            "fail" => {
                Ok(CallToolResult::error(vec![ContentBlock::text("it cannot be done")]).into())
            }
            "wait" => self.wait(&context).await,
            "waiting" => sum(self.0.load(Ordering::Relaxed) as i64),
            "ask" => {
                let answer = request.input_responses.unwrap_or_default().remove("name");
                match answer {
                    None => Ok(question()?.into()),
                    Some(answer) => {
                        let name = answer["content"]["name"].as_str().unwrap_or_default();
                        let hello = ContentBlock::text(format!("Hello, {name}!"));
                        Ok(CallToolResult::success(vec![hello]).into())
                    }
                }
            }
            _ => Err(ErrorData::invalid_params("there is no such tool", None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        typed(json!({"resources": [{"uri": "note://greeting", "name": "greeting"}]}))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        typed(
            json!({"resourceTemplates": [{"uriTemplate": "note://{number}/text", "name": "note"}]}),
        )
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let number = request
            .uri
            .strip_prefix("note://")
            .and_then(|rest| rest.strip_suffix("/text"));
        let text = match number {
            Some(number) => format!("Note {number}"),
            None if request.uri == "note://greeting" => "Grüße ✓".to_owned(),
            None => return Err(ErrorData::resource_not_found("there is no such note", None)),
        };
        let result: rmcp::model::ReadResourceResult =
            typed(json!({"contents": [{"uri": request.uri, "text": text}]}))?;
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = json!({"name": "name", "required": true});
        typed(json!({"prompts": [{"name": "greet", "arguments": [name]}]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = json!(request.arguments)["name"].take();
        let name = name.as_str().unwrap_or_default();
        let text = json!({"type": "text", "text": format!("Say hello to {name}.")});
        let result: rmcp::model::GetPromptResult =
            typed(json!({"messages": [{"role": "user", "content": text}]}))?;
        Ok(result.into())
    }
}

impl SmallServer {
    async fn wait(&self, context: &Context) -> Result<CallToolResponse, ErrorData> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if let Some(token) = context.meta.get_progress_token() {
            let step = ProgressNotificationParam::new(token, 1.0)
                .with_total(2.0)
                .with_message("waiting");
            // Fails if the client has disconnected, which cancels the call.
            let _ = context.peer.notify_progress(step).await;
        }
        context.ct.cancelled().await;
        self.0.fetch_sub(1, Ordering::Relaxed);
        Err(ErrorData::internal_error("cancelled", None))
    }
}

/// The question to the user, in the form of 2026-07-28.
fn question() -> Result<InputRequiredResult, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let params = json!({"mode": "form", "message": "Who are you?", "requestedSchema": schema});
    let request = json!({"method": "elicitation/create", "params": params});
    let requests = typed(json!({"name": request}))?;
    Ok(InputRequiredResult::new(Some(requests), None))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    SmallServer::default()
        .serve(stdio_pipes())
        .await?
        .waiting()
        .await?;
    Ok(())
}
