//! Parses the table `[approvals]`.

use std::time::Duration;

use gateway_access::Rule;
use serde::Deserialize;
use toml::Spanned;

use super::duration::ConfigDuration;
use super::error::{Problem, line_at};
use super::expand::Environment;

/// The default of `timeout`, and its limit.
const TIMEOUT: Duration = Duration::from_secs(600);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalsTable {
    #[serde(default)]
    confirm: Vec<Spanned<String>>,
    #[serde(default)]
    approve: Vec<Spanned<String>>,
    timeout: Option<ConfigDuration>,
    webhook: Option<String>,
    #[serde(default)]
    allow_own: bool,
}

/// The calls that need a person, of all callers. Has no `Debug`, since the URL may be a secret.
#[derive(Clone, PartialEq)]
pub(crate) struct ApprovalConfig {
    /// Tools about which the caller's user is asked.
    pub(crate) confirm: Vec<Rule>,
    /// Tools about which an operator decides.
    pub(crate) approve: Vec<Rule>,
    /// The time that a person has.
    pub(crate) timeout: Duration,
    /// A URL that is told of each call that waits for an operator. Its path may be a secret.
    pub(crate) webhook: Option<String>,
    /// A principal may approve its own calls.
    pub(crate) allow_own: bool,
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            confirm: Vec::new(),
            approve: Vec::new(),
            timeout: TIMEOUT,
            webhook: None,
            allow_own: false,
        }
    }
}

impl ApprovalsTable {
    pub(super) fn build(
        self,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<ApprovalConfig, Problem> {
        let wrong = |problem: String| Problem::new(&["approvals", "webhook"], problem);
        let webhook = self.webhook.as_deref().map(|webhook| {
            let url = environment.text(webhook);
            let url = url.map_err(|error| wrong(error.to_string()))?;
            let text = "must start with http:// or https:// and name a host, without a user name or password";
            if mcp_client::Endpoint::new(&url).is_err() {
                return Err(wrong(text.to_owned()));
            }
            Ok(url.to_string())
        });
        let webhook = webhook.transpose()?;
        let timeout = self
            .timeout
            .map_or(TIMEOUT, |ConfigDuration(timeout)| timeout);
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            let text = "must be more than 0 and at most 24 h";
            return Err(Problem::new(&["approvals", "timeout"], text));
        }
        let rules = |list: &'static str, patterns: Vec<Spanned<String>>| {
            let rules = patterns.into_iter().map(|pattern| {
                let line = line_at(text, pattern.span().start);
                let pattern = pattern.into_inner();
                if pattern.trim().is_empty() {
                    let text = "must not have an empty pattern";
                    return Err(Problem::new(&["approvals", list], text));
                }
                Ok(Rule::new(pattern, "approvals".into(), list, line))
            });
            rules.collect::<Result<Vec<Rule>, Problem>>()
        };
        Ok(ApprovalConfig {
            confirm: rules("confirm", self.confirm)?,
            approve: rules("approve", self.approve)?,
            timeout,
            webhook,
            allow_own: self.allow_own,
        })
    }
}
