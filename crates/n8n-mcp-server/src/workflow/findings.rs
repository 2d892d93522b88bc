//! Findings about a workflow, each with its fix.

use schemars::JsonSchema;
use serde::Serialize;

/// A problem, or a possible one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) message: String,
    /// Fix for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// Whether it runs anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// Findings in the order in which they are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn error(&mut self, node: &str, message: impl Into<String>, fix: &str) {
        self.add(Severity::Error, node, message.into(), fix);
    }

    pub(crate) fn warning(&mut self, node: &str, message: impl Into<String>, fix: &str) {
        self.add(Severity::Warning, node, message.into(), fix);
    }

    fn add(&mut self, severity: Severity, node: &str, message: String, fix: &str) {
        let not_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.0.push(Finding {
            severity,
            node: not_empty(node),
            message,
            fix: not_empty(fix),
        });
    }
}
