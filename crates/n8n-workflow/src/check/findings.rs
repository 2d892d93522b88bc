//! Findings about a workflow, each with its fix.

use schemars::JsonSchema;
use serde::Serialize;

/// A problem, or a possible one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct Finding {
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub message: String,
    /// Fix for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Whether it runs anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// Findings in the order in which they are made.
#[derive(Clone, Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds an error about a node, or about the workflow if `node` is empty; `fix` may be empty.
    pub fn error(&mut self, node: &str, message: impl Into<String>, fix: &str) {
        self.add(Severity::Error, node, message.into(), fix);
    }

    /// The same, a warning.
    pub fn warning(&mut self, node: &str, message: impl Into<String>, fix: &str) {
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
