//! The methods of the specification, in all revisions, and of seed 001.

use super::Server;
use crate::era::Era;

/// A method that dispatch knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McpMethod {
    Initialize,
    Ping,
    Discover,
    ListTools,
    CallTool,
    ListResources,
    ListTemplates,
    ReadResource,
    Subscribe,
    Unsubscribe,
    ListPrompts,
    GetPrompt,
    Complete,
    SetLogLevel,
    Listen,
    GetTask,
    TaskResult,
    ListTasks,
    UpdateTask,
    CancelTask,
    Seed001ListTools,
    Seed001CallTool,
    Seed001ServerInfo,
    /// A custom method, or an unknown one.
    Custom,
}

impl McpMethod {
    fn named(name: &str) -> Self {
        match name {
            "initialize" => Self::Initialize,
            "ping" => Self::Ping,
            "server/discover" => Self::Discover,
            "tools/list" => Self::ListTools,
            "tools/call" => Self::CallTool,
            "resources/list" => Self::ListResources,
            "resources/templates/list" => Self::ListTemplates,
            "resources/read" => Self::ReadResource,
            "resources/subscribe" => Self::Subscribe,
            "resources/unsubscribe" => Self::Unsubscribe,
            "prompts/list" => Self::ListPrompts,
            "prompts/get" => Self::GetPrompt,
            "completion/complete" => Self::Complete,
            "logging/setLevel" => Self::SetLogLevel,
            "subscriptions/listen" => Self::Listen,
            "tasks/get" => Self::GetTask,
            "tasks/result" => Self::TaskResult,
            "tasks/list" => Self::ListTasks,
            "tasks/update" => Self::UpdateTask,
            "tasks/cancel" => Self::CancelTask,
            "mcp.listTools" => Self::Seed001ListTools,
            "mcp.callTool" => Self::Seed001CallTool,
            "mcp.getServerInfo" => Self::Seed001ServerInfo,
            _ => Self::Custom,
        }
    }

    /// True if `era` has the method.
    fn is_in(self, era: Era) -> bool {
        match self {
            Self::Discover | Self::Listen | Self::UpdateTask => era == Era::Modern,
            Self::Initialize
            | Self::Ping
            | Self::Subscribe
            | Self::Unsubscribe
            | Self::SetLogLevel
            | Self::TaskResult
            | Self::ListTasks
            | Self::Seed001ListTools
            | Self::Seed001CallTool
            | Self::Seed001ServerInfo => era != Era::Modern,
            _ => true,
        }
    }

    /// True if a modern client answers questions by repeating the request.
    pub(super) fn has_rounds(self) -> bool {
        matches!(self, Self::CallTool | Self::ReadResource | Self::GetPrompt)
    }

    /// True if the request calls a tool.
    pub(super) fn calls_tool(self) -> bool {
        matches!(self, Self::CallTool | Self::Seed001CallTool)
    }
}

impl Server {
    /// The method `name` of `era`, if the server supports it.
    pub(super) fn method(&self, name: &str, era: Era) -> McpMethod {
        let method = McpMethod::named(name);
        let is_supported = match method {
            McpMethod::GetTask
            | McpMethod::TaskResult
            | McpMethod::ListTasks
            | McpMethod::UpdateTask
            | McpMethod::CancelTask => self.has_tasks(era),
            // Clients of earlier eras ask for these lists even without the capability (seed 003).
            McpMethod::ListResources | McpMethod::ListTemplates if era == Era::Modern => {
                self.has_resources()
            }
            McpMethod::ListPrompts if era == Era::Modern => self.has_prompts(),
            _ => true,
        };
        match is_supported && method.is_in(era) {
            true => method,
            false => McpMethod::Custom,
        }
    }
}
