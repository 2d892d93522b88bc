//! The fields that n8n accepts in a workflow. One field more and it rejects the whole workflow, and
//! it returns fields that it rejects itself; which ones depends on its version.

/// The fields that are sent: all that the newest n8n accepts, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldSet {
    /// n8n before 1.100.
    Early,
    /// The later ones of n8n 1.
    N8n1,
    /// n8n 2.
    N8n2,
}

/// Tried in this order if n8n rejects [`FieldSet::N8n2`]: it rejects a body before it acts on it.
pub const FEWER_FIELDS: [FieldSet; 2] = [FieldSet::N8n1, FieldSet::Early];

const EARLY_SETTINGS: &str = "saveExecutionProgress saveManualExecutions saveDataErrorExecution \
    saveDataSuccessExecution executionTimeout errorWorkflow timezone executionOrder";
const N8N1_SETTINGS: &str = "callerPolicy callerIds timeSavedPerExecution availableInMCP";
// `binaryMode` is returned and ignored.
const N8N2_SETTINGS: &str =
    "timeSavedMode redactionPolicy customTelemetryTags credentialResolverId";
const NODE_FIELDS: &str = "id name webhookId disabled notesInFlow notes type typeVersion \
    executeOnce alwaysOutputData retryOnFail maxTries waitBetweenTries continueOnFail onError \
    position parameters credentials";
const N8N2_NODE_FIELDS: &str = "customTelemetryTags";

impl FieldSet {
    /// True if n8n accepts this setting of a workflow.
    pub(crate) fn keeps_setting(self, key: &str) -> bool {
        holds(EARLY_SETTINGS, key)
            || (self >= Self::N8n1 && holds(N8N1_SETTINGS, key))
            || (self >= Self::N8n2 && holds(N8N2_SETTINGS, key))
    }

    /// True if n8n accepts this field of a node.
    pub(crate) fn keeps_field(self, key: &str) -> bool {
        holds(NODE_FIELDS, key) || (self >= Self::N8n2 && holds(N8N2_NODE_FIELDS, key))
    }
}

fn holds(names: &str, key: &str) -> bool {
    names.split(' ').any(|name| name == key)
}
