//! What n8n takes of a workflow. It refuses the whole of it for one field more, and returns fields
//! that it refuses itself; which ones depends on its version.

/// How much is sent: the whole of what the newest n8n takes, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// n8n 2.
    New,
    /// n8n 1.
    Old,
    /// n8n before 1.100.
    Ancient,
}

/// In the order in which they are tried: n8n refuses a body before it does anything with it.
pub(crate) const TIERS: [Tier; 3] = [Tier::New, Tier::Old, Tier::Ancient];

const SETTINGS: [&str; 8] = [
    "saveExecutionProgress",
    "saveManualExecutions",
    "saveDataErrorExecution",
    "saveDataSuccessExecution",
    "executionTimeout",
    "errorWorkflow",
    "timezone",
    "executionOrder",
];
const OLD_SETTINGS: [&str; 4] = [
    "callerPolicy",
    "callerIds",
    "timeSavedPerExecution",
    "availableInMCP",
];
// `binaryMode` is returned and ignored.
const NEW_SETTINGS: [&str; 4] = [
    "timeSavedMode",
    "redactionPolicy",
    "customTelemetryTags",
    "credentialResolverId",
];
const FIELDS: [&str; 18] = [
    "id",
    "name",
    "webhookId",
    "disabled",
    "notesInFlow",
    "notes",
    "type",
    "typeVersion",
    "executeOnce",
    "alwaysOutputData",
    "retryOnFail",
    "maxTries",
    "waitBetweenTries",
    "continueOnFail",
    "onError",
    "position",
    "parameters",
    "credentials",
];
const NEW_FIELDS: [&str; 1] = ["customTelemetryTags"];

impl Tier {
    /// True if this setting of a workflow is taken.
    pub(crate) fn keeps_setting(self, key: &str) -> bool {
        SETTINGS.contains(&key)
            || (self != Self::Ancient && OLD_SETTINGS.contains(&key))
            || (self == Self::New && NEW_SETTINGS.contains(&key))
    }

    /// True if this field of a node is taken.
    pub(crate) fn keeps_field(self, key: &str) -> bool {
        FIELDS.contains(&key) || (self == Self::New && NEW_FIELDS.contains(&key))
    }
}
