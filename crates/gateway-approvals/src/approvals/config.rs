//! The settings of approvals.

use std::time::Duration;

use gateway_access::Rule;

/// The calls that need a person, of all callers. Has no `Debug`, since the URL may be a secret.
#[derive(Clone, PartialEq)]
pub struct ApprovalConfig {
    /// Tools about which the caller's user is asked.
    pub confirm: Vec<Rule>,
    /// Tools about which an operator decides.
    pub approve: Vec<Rule>,
    /// The time that a person has.
    pub timeout: Duration,
    /// A URL that is told of each call that waits for an operator. Its path may be a secret.
    pub webhook: Option<String>,
    /// A principal may approve its own calls.
    pub allow_own: bool,
}

impl ApprovalConfig {
    /// The time that a person has, unless it is set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            confirm: Vec::new(),
            approve: Vec::new(),
            timeout: Self::DEFAULT_TIMEOUT,
            webhook: None,
            allow_own: false,
        }
    }
}
