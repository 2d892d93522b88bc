//! The methods of the specification, in all revisions, and of seed 001.

use super::Server;
use super::params::MAX_NAME;
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
    let method = McpMethod::named(name);
    (method != McpMethod::Custom).then(|| method.name())
}

/// Whether the unversioned and legacy eras have a method, and whether the modern era has it.
type Eras = (bool, bool);
const ALL: Eras = (true, true);
const OLDER: Eras = (true, false);
const MODERN: Eras = (false, true);

/// Every method with its name on the wire and its eras. Custom and unknown ones have the name that the conventions of
/// OpenTelemetry give them.
const METHODS: [(McpMethod, &str, Eras); 24] = [
    (McpMethod::CallTool, "tools/call", ALL),
    (McpMethod::ListTools, "tools/list", ALL),
    (McpMethod::Initialize, "initialize", OLDER),
    (McpMethod::Ping, "ping", OLDER),
    (McpMethod::Discover, "server/discover", MODERN),
    (McpMethod::ListResources, "resources/list", ALL),
    (McpMethod::ListTemplates, "resources/templates/list", ALL),
    (McpMethod::ReadResource, "resources/read", ALL),
    (McpMethod::Subscribe, "resources/subscribe", OLDER),
    (McpMethod::Unsubscribe, "resources/unsubscribe", OLDER),
    (McpMethod::ListPrompts, "prompts/list", ALL),
    (McpMethod::GetPrompt, "prompts/get", ALL),
    (McpMethod::Complete, "completion/complete", ALL),
    (McpMethod::SetLogLevel, "logging/setLevel", OLDER),
    (McpMethod::Listen, "subscriptions/listen", MODERN),
    (McpMethod::GetTask, "tasks/get", ALL),
    (McpMethod::TaskResult, "tasks/result", OLDER),
    (McpMethod::ListTasks, "tasks/list", OLDER),
    (McpMethod::UpdateTask, "tasks/update", MODERN),
    (McpMethod::CancelTask, "tasks/cancel", ALL),
    (McpMethod::Seed001ListTools, "mcp.listTools", OLDER),
    (McpMethod::Seed001CallTool, "mcp.callTool", OLDER),
    (McpMethod::Seed001ServerInfo, "mcp.getServerInfo", OLDER),
    (McpMethod::Custom, OTHER, ALL),
];

const OTHER: &str = "_OTHER";

impl McpMethod {
    /// The method with this name, of whatever era.
    pub(super) fn named(name: &str) -> Self {
        let mut methods = METHODS.iter();
        let found = methods.find(|(_, known, _)| *known == name);
        found.map_or(Self::Custom, |(method, ..)| *method)
    }

    pub(super) fn name(self) -> &'static str {
        self.row().0
    }

    fn row(self) -> (&'static str, Eras) {
        let mut methods = METHODS.iter();
        let found = methods.find(|(method, ..)| *method == self);
        found.map_or((OTHER, ALL), |(_, name, eras)| (*name, *eras))
    }

    /// True if its requests are recorded: those that use an item. Lists are not.
    pub(super) fn uses_item(self) -> bool {
        matches!(
            self,
            Self::CallTool
                | Self::Seed001CallTool
                | Self::ReadResource
                | Self::Subscribe
                | Self::Unsubscribe
                | Self::GetPrompt
                | Self::Complete
                | Self::UpdateTask
                | Self::CancelTask
        )
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

    pub(super) fn calls_tool(self) -> bool {
        matches!(self, Self::CallTool | Self::Seed001CallTool)
    }
}

impl Server {
    /// A method of `era` whose name differs from `name` by at most two letters.
    pub(super) fn similar_method(&self, name: &str, era: Era) -> Option<String> {
        if name.len() > MAX_NAME {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let custom = self.features.methods.iter().map(|(custom, _)| *custom);
        let known = METHODS.iter();
        let known = known.filter(|(known, ..)| self.method(*known, era) != McpMethod::Custom);
        let known = known.map(|(_, known, _)| *known);
        let distance = |known: &str| strsim::osa_distance(&name, &known.to_ascii_lowercase());
        let scored = known.chain(custom).map(|known| (distance(known), known));
        let nearest = scored.filter(|(distance, _)| *distance <= 2).min();
        nearest.map(|(_, known)| known.to_owned())
    }

    /// The method, if the server supports it in `era`.
    pub(super) fn method(&self, method: McpMethod, era: Era) -> McpMethod {
        let (_, (is_older, is_modern)) = method.row();
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
        let is_in_era = match era {
            Era::Modern => is_modern,
            Era::Legacy(_) | Era::Unversioned => is_older,
        };
        match is_supported && is_in_era {
            true => method,
            false => McpMethod::Custom,
        }
    }
}
