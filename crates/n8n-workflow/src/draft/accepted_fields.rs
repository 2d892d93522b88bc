//! The fields that n8n accepts in a workflow. One field more and it rejects the whole workflow, and
//! it returns fields that it rejects itself; which ones depends on its version.

/// The fields that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSet {
    /// The fields that every n8n 2 accepts.
    Older,
    /// All that the newest n8n accepts.
    Newest,
}

const SETTINGS: &str = "saveExecutionProgress saveManualExecutions saveDataErrorExecution \
    saveDataSuccessExecution executionTimeout errorWorkflow timezone executionOrder callerPolicy \
    callerIds timeSavedPerExecution availableInMCP";
// `binaryMode` is returned and ignored.
const NEWER_SETTINGS: &str =
    "timeSavedMode redactionPolicy customTelemetryTags credentialResolverId";
const NODE_FIELDS: &str = "id name webhookId disabled notesInFlow notes type typeVersion \
    executeOnce alwaysOutputData retryOnFail maxTries waitBetweenTries continueOnFail onError \
    position parameters credentials";
const NEWER_NODE_FIELDS: &str = "customTelemetryTags";

impl FieldSet {
    /// True if n8n accepts this setting of a workflow.
    pub(crate) fn keeps_setting(self, key: &str) -> bool {
        holds(SETTINGS, key) || (self == Self::Newest && holds(NEWER_SETTINGS, key))
    }

    /// True if n8n accepts this field of a node.
    pub(crate) fn keeps_field(self, key: &str) -> bool {
        holds(NODE_FIELDS, key) || (self == Self::Newest && holds(NEWER_NODE_FIELDS, key))
    }
}

fn holds(names: &str, key: &str) -> bool {
    names.split(' ').any(|name| name == key)
}
