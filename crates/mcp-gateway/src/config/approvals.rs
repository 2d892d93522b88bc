//! Parses the table `[approvals]`.

use std::time::Duration;

use gateway_access::Rule;
use gateway_approvals::approvals::ApprovalConfig;
use serde::de::{SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::duration::ConfigDuration;
use super::error::{Problem, line_at};
use super::expand::{Environment, reason};

/// Limit of `timeout`.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The calls about which an operator decides: those of these patterns, or with `"operator"` those of `confirm` in the
/// same table, about which the user is not asked then.
pub(super) enum Approve {
    Patterns(Vec<Spanned<String>>),
    Operator,
}

impl Default for Approve {
    fn default() -> Self {
        Self::Patterns(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Approve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not an untagged enum: that loses the lines.
        deserializer.deserialize_any(ApproveVisitor)
    }
}

struct ApproveVisitor;

impl<'de> Visitor<'de> for ApproveVisitor {
    type Value = Approve;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of patterns, or \"operator\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Approve, E> {
        match text {
            "operator" => Ok(Approve::Operator),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Approve, A::Error> {
        let mut patterns = Vec::new();
        while let Some(pattern) = list.next_element()? {
            patterns.push(pattern);
        }
        Ok(Approve::Patterns(patterns))
    }
}

/// Makes the rules of the lists `confirm` and `approve` of one table.
///
/// # Errors
/// The mistake in `approve`.
pub(super) fn rules(
    confirm: &[Spanned<String>],
    approve: &Approve,
    rule: impl Fn(&'static str, &Spanned<String>) -> Rule,
) -> Result<[Vec<Rule>; 2], &'static str> {
    let all = |list, patterns: &[Spanned<String>]| {
        let rules = patterns.iter().map(|pattern| rule(list, pattern));
        rules.collect::<Vec<Rule>>()
    };
    let confirm_rules = all("confirm", confirm);
    match approve {
        Approve::Patterns(patterns) => Ok([confirm_rules, all("approve", patterns)]),
        Approve::Operator if confirm.is_empty() => {
            Err("\"operator\" needs `confirm`, which names the calls that wait for the operator")
        }
        Approve::Operator => Ok([Vec::new(), confirm_rules]),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalsTable {
    #[serde(default)]
    confirm: Vec<Spanned<String>>,
    #[serde(default)]
    approve: Approve,
    timeout: Option<ConfigDuration>,
    webhook: Option<String>,
    #[serde(default)]
    allow_own: bool,
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
            let url = url.map_err(|error| wrong(reason(&error)))?;
            let text = "must start with http:// or https:// and name a host, without a user name or password";
            if mcp_client::Endpoint::new(&url).is_err() {
                return Err(wrong(text.to_owned()));
            }
            Ok(url.to_string())
        });
        let webhook = webhook.transpose()?;
        let timeout = self.timeout.map_or(
            ApprovalConfig::DEFAULT_TIMEOUT,
            |ConfigDuration(timeout)| timeout,
        );
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            let text = "must be more than 0 and at most 24 h";
            return Err(Problem::new(&["approvals", "timeout"], text));
        }
        let rule = |list, pattern: &Spanned<String>| {
            let line = line_at(text, pattern.span().start);
            Rule::new(pattern.as_ref().clone(), "approvals".into(), list, line)
        };
        let lists = rules(&self.confirm, &self.approve, rule);
        let [confirm, approve] =
            lists.map_err(|text| Problem::new(&["approvals", "approve"], text))?;
        let is_blank = |rule: &Rule| rule.pattern.trim().is_empty();
        if let Some(blank) = confirm.iter().chain(&approve).find(|rule| is_blank(rule)) {
            let text = "must not have an empty pattern";
            return Err(Problem::new(&["approvals", blank.list], text));
        }
        Ok(ApprovalConfig {
            confirm,
            approve,
            timeout,
            webhook,
            allow_own: self.allow_own,
        })
    }
}
