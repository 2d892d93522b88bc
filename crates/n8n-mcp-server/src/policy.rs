//! What the operator lets this server do, beyond what the API key may.
//!
//! * Which workflows there are at all, by id, tag or project: everything else is refused, and left
//!   out of lists.
//! * Whether what was written through this server may be started through it before a person has
//!   seen it: otherwise text that a model reads could have it write, activate and run a workflow.

use std::str::FromStr;

use mcp_core::tool::ToolError;

use crate::api::{Tag, Workflow, WorkflowRow};
use crate::id::Id;

/// The tag of workflows that nobody has reviewed since they were written through this server.
pub(crate) const REVIEW_TAG: &str = "mcp-review";

/// Workflows by what they have in common: `ID`, `tag:NAME` or `project:ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Workflow(String),
    Tag(String),
    Project(String),
}

impl Rule {
    fn is_of_an_id(&self) -> bool {
        matches!(self, Self::Workflow(_))
    }

    fn names(&self, id: &str) -> bool {
        matches!(self, Self::Workflow(own) if own == id)
    }

    fn matches(&self, id: &str, tags: &[Tag], projects: &[&str]) -> bool {
        match self {
            Self::Workflow(own) => own == id,
            Self::Tag(name) => tags.iter().any(|tag| tag.name == *name),
            Self::Project(own) => projects.contains(&own.as_str()),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let filled = |value: &str| match value.trim() {
            "" => Err(format!("{text:?} names nothing")),
            value => Ok(value.to_owned()),
        };
        if let Some(tag) = text.strip_prefix("tag:") {
            return filled(tag).map(Self::Tag);
        }
        if let Some(project) = text.strip_prefix("project:") {
            return filled(project).map(Self::Project);
        }
        match Id::try_from(text.to_owned()) {
            Ok(_) => Ok(Self::Workflow(text.to_owned())),
            Err(_) => Err(format!(
                "{text:?} is neither the id of a workflow nor tag:NAME nor project:ID"
            )),
        }
    }
}

/// What the operator allows.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// Only these workflows; all where there are none.
    allow: Vec<Rule>,
    /// Not these, whatever is allowed.
    deny: Vec<Rule>,
    /// What was written here waits for a person before it is started.
    requires_review: bool,
}

impl Policy {
    pub(crate) fn new(allow: Vec<Rule>, deny: Vec<Rule>, requires_review: bool) -> Self {
        Self {
            allow,
            deny,
            requires_review,
        }
    }

    /// True if every workflow is open.
    pub(crate) fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    pub(crate) fn requires_review(&self) -> bool {
        self.requires_review
    }

    /// Whether a workflow is open; `None` if its tags and projects decide and are not known.
    pub(crate) fn admits_id(&self, id: &str) -> Option<bool> {
        let names = |rules: &[Rule]| rules.iter().any(|rule| rule.names(id));
        let by_id = |rules: &[Rule]| rules.iter().all(Rule::is_of_an_id);
        if names(&self.deny) {
            Some(false)
        } else if !by_id(&self.deny) {
            None
        } else if self.allow.is_empty() || names(&self.allow) {
            Some(true)
        } else {
            by_id(&self.allow).then_some(false)
        }
    }

    pub(crate) fn admits(&self, workflow: &Workflow) -> bool {
        self.decide(&workflow.id, &workflow.tags, &workflow.shared.ids())
    }

    pub(crate) fn admits_row(&self, row: &WorkflowRow) -> bool {
        self.decide(&row.id, &row.tags, &row.shared.ids())
    }

    fn decide(&self, id: &str, tags: &[Tag], projects: &[&str]) -> bool {
        let hit = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(id, tags, projects));
        !hit(&self.deny) && (self.allow.is_empty() || hit(&self.allow))
    }

    /// Refuses to activate or run what nobody has reviewed.
    pub(crate) fn check_start(&self, workflow: &Workflow) -> Result<(), ToolError> {
        let unseen = workflow.tags.iter().any(|tag| tag.name == REVIEW_TAG);
        if !self.requires_review || !unseen {
            return Ok(());
        }
        Err(ToolError::forbidden(format!(
            "Workflow {} was written through this server and has not been reviewed. A person \
                 must look at it in n8n and take its tag `{REVIEW_TAG}` off; then it can be \
                 activated and run.",
            workflow.id
        )))
    }

    /// Refuses to take off the tag that waits for a person.
    pub(crate) fn check_tags(&self, workflow: &Workflow, tags: &[String]) -> Result<(), ToolError> {
        let unseen = workflow.tags.iter().any(|tag| tag.name == REVIEW_TAG);
        if !self.requires_review || !unseen || tags.iter().any(|tag| tag == REVIEW_TAG) {
            return Ok(());
        }
        Err(ToolError::forbidden(format!(
            "Only a person may take the tag `{REVIEW_TAG}` off, in n8n."
        )))
    }

    /// Refuses to write to what is active: the change could run before anybody has seen it.
    pub(crate) fn check_write(&self, workflow: &Workflow) -> Result<(), ToolError> {
        if !self.requires_review || !workflow.active {
            return Ok(());
        }
        Err(ToolError::forbidden(format!(
            "Workflow {} is active, and this server may not change what runs before a person \
                 has reviewed it (N8N_REQUIRE_REVIEW). Deactivate it first, or change a duplicate.",
            workflow.id
        )))
    }
}

/// The refusal of a workflow that is not open.
pub(crate) fn closed(id: &Id) -> ToolError {
    ToolError::forbidden(format!(
        "Workflow {id} is not open to this server: its operator chose which are \
             (N8N_ALLOW_WORKFLOWS, N8N_DENY_WORKFLOWS)."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn workflow(id: &str, tags: &[&str], project: &str) -> Workflow {
        let tags: Vec<_> = tags
            .iter()
            .map(|name| serde_json::json!({"name": name}))
            .collect();
        let json = serde_json::json!({
            "id": id, "name": "W", "tags": tags, "shared": [{"projectId": project}],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn denying_goes_before_allowing() {
        let policy = Policy::new(
            rules(&["tag:open", "w9", "project:p1"]),
            rules(&["tag:closed", "w3"]),
            false,
        );
        assert!(policy.admits(&workflow("w1", &["open"], "p")));
        assert!(policy.admits(&workflow("w9", &[], "p")));
        assert!(policy.admits(&workflow("w2", &[], "p1")));
        assert!(!policy.admits(&workflow("w2", &[], "p")));
        assert!(!policy.admits(&workflow("w2", &["open", "closed"], "p")));
        assert!(!policy.admits(&workflow("w3", &["open"], "p1")));
        assert_eq!(policy.admits_id("w3"), Some(false));
        assert_eq!(policy.admits_id("w9"), None);
    }

    #[test]
    fn ids_alone_decide_without_asking() {
        let policy = Policy::new(rules(&["w1"]), rules(&["w2"]), false);
        assert_eq!(policy.admits_id("w1"), Some(true));
        assert_eq!(policy.admits_id("w2"), Some(false));
        assert_eq!(policy.admits_id("w3"), Some(false));
        assert_eq!(Policy::default().admits_id("w3"), Some(true));
    }

    #[test]
    fn what_nobody_has_seen_is_not_started() {
        let policy = Policy::new(Vec::new(), Vec::new(), true);
        assert!(policy.check_start(&workflow("w", &[], "p")).is_ok());
        let error = policy
            .check_start(&workflow("w", &[REVIEW_TAG], "p"))
            .unwrap_err();
        assert!(error.message().contains(REVIEW_TAG), "{error}");
        assert!(
            Policy::default()
                .check_start(&workflow("w", &[REVIEW_TAG], "p"))
                .is_ok()
        );
    }

    #[test]
    fn a_rule_is_an_id_a_tag_or_a_project() {
        assert_eq!("w1".parse(), Ok(Rule::Workflow("w1".into())));
        assert_eq!("tag: my tag".parse(), Ok(Rule::Tag("my tag".into())));
        assert_eq!("project:p".parse(), Ok(Rule::Project("p".into())));
        for bad in ["", "tag:", "a b", "owner:x"] {
            assert!(bad.parse::<Rule>().is_err(), "{bad:?}");
        }
    }
}
