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

/// The name itself, if the specification or seed 001 has a method of this name.
pub fn known_method(name: &str) -> Option<&'static str> {
    McpMethod::known_name(name)
}

/// Whether the unversioned and legacy eras have a method, and whether the modern era has it.
type Eras = (bool, bool);
const ALL: Eras = (true, true);
const OLDER: Eras = (true, false);
const MODERN: Eras = (false, true);

impl McpMethod {
    /// The name on the wire; that of custom and unknown methods is the one of the conventions of OpenTelemetry.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::Discover => "server/discover",
            Self::ListTools => "tools/list",
            Self::CallTool => "tools/call",
            Self::ListResources => "resources/list",
            Self::ListTemplates => "resources/templates/list",
            Self::ReadResource => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
            Self::Complete => "completion/complete",
            Self::SetLogLevel => "logging/setLevel",
            Self::Listen => "subscriptions/listen",
            Self::GetTask => "tasks/get",
            Self::TaskResult => "tasks/result",
            Self::ListTasks => "tasks/list",
            Self::UpdateTask => "tasks/update",
            Self::CancelTask => "tasks/cancel",
            Self::Seed001ListTools => "mcp.listTools",
            Self::Seed001CallTool => "mcp.callTool",
            Self::Seed001ServerInfo => "mcp.getServerInfo",
            Self::Custom => "_OTHER",
        }
    }

    fn named(name: &str) -> (Self, Eras) {
        match name {
            "initialize" => (Self::Initialize, OLDER),
            "ping" => (Self::Ping, OLDER),
            "server/discover" => (Self::Discover, MODERN),
            "tools/list" => (Self::ListTools, ALL),
            "tools/call" => (Self::CallTool, ALL),
            "resources/list" => (Self::ListResources, ALL),
            "resources/templates/list" => (Self::ListTemplates, ALL),
            "resources/read" => (Self::ReadResource, ALL),
            "resources/subscribe" => (Self::Subscribe, OLDER),
            "resources/unsubscribe" => (Self::Unsubscribe, OLDER),
            "prompts/list" => (Self::ListPrompts, ALL),
            "prompts/get" => (Self::GetPrompt, ALL),
            "completion/complete" => (Self::Complete, ALL),
            "logging/setLevel" => (Self::SetLogLevel, OLDER),
            "subscriptions/listen" => (Self::Listen, MODERN),
            "tasks/get" => (Self::GetTask, ALL),
            "tasks/result" => (Self::TaskResult, OLDER),
            "tasks/list" => (Self::ListTasks, OLDER),
            "tasks/update" => (Self::UpdateTask, MODERN),
            "tasks/cancel" => (Self::CancelTask, ALL),
            "mcp.listTools" => (Self::Seed001ListTools, OLDER),
            "mcp.callTool" => (Self::Seed001CallTool, OLDER),
            "mcp.getServerInfo" => (Self::Seed001ServerInfo, OLDER),
            _ => (Self::Custom, ALL),
        }
    }

    /// The method `name`, if its requests are recorded: those that use an item. Lists are not.
    pub(super) fn audited(name: &str) -> Option<Self> {
        let (method, _) = Self::named(name);
        let uses_item = matches!(
            method,
            Self::CallTool
                | Self::Seed001CallTool
                | Self::ReadResource
                | Self::Subscribe
                | Self::Unsubscribe
                | Self::GetPrompt
                | Self::Complete
                | Self::UpdateTask
                | Self::CancelTask
        );
        uses_item.then_some(method)
    }

    /// The name itself, if the specification or seed 001 has such a method.
    pub(super) fn known_name(name: &str) -> Option<&'static str> {
        let (method, _) = Self::named(name);
        (method != Self::Custom).then(|| method.name())
    }

    /// True if the method of this name calls a tool.
    pub(super) fn is_tool_call(name: &str) -> bool {
        Self::named(name).0.calls_tool()
    }

    /// True if a modern client answers questions by repeating the request.
    pub(super) fn has_rounds(self) -> bool {
        matches!(self, Self::CallTool | Self::ReadResource | Self::GetPrompt)
    }

    /// True if a request may go on with a task that another process has begun: its questions wait in the task.
    pub(super) fn resumes_tasks(self) -> bool {
        matches!(
            self,
            Self::GetTask | Self::CancelTask | Self::UpdateTask | Self::Listen
        )
    }

    /// True if the request calls a tool.
    pub(super) fn calls_tool(self) -> bool {
        matches!(self, Self::CallTool | Self::Seed001CallTool)
    }
}

impl Server {
    /// The method `name` of `era`, if the server supports it.
    pub(super) fn method(&self, name: &str, era: Era) -> McpMethod {
        let (method, (is_older, is_modern)) = McpMethod::named(name);
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
        let is_in_era = if era == Era::Modern {
            is_modern
        } else {
            is_older
        };
        match is_supported && is_in_era {
            true => method,
            false => McpMethod::Custom,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_a_name_agree() {
        for name in [
            "initialize",
            "ping",
            "server/discover",
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "subscriptions/listen",
            "tasks/get",
            "tasks/result",
            "tasks/list",
            "tasks/update",
            "tasks/cancel",
            "mcp.listTools",
            "mcp.callTool",
            "mcp.getServerInfo",
        ] {
            assert_eq!(McpMethod::known_name(name), Some(name));
        }
        assert_eq!(McpMethod::known_name("other"), None);
    }
}
