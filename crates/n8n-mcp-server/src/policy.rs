//! The operator's restrictions on this server, in addition to those of the API key.
//!
//! * The workflows that it may use, by id, tag or project: others are refused, and left out of
//!   lists.
//! * A review by a person before a workflow that was written through this server is started through
//!   it: otherwise a prompt injection could make a model write, activate and run a workflow.

use std::str::FromStr;

use mcp_core::tool::ToolError;
use n8n_workflow::{Id, Workflow};

/// The tag of workflows that were written through this server and not reviewed since.
pub(crate) const REVIEW_TAG: &str = "mcp-review";

/// A selector of workflows: `ID`, `tag:NAME` or `project:ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Workflow(String),
    Tag(String),
    Project(String),
}

impl Rule {
    fn matches(&self, id: &str, tags: &[String], projects: &[String]) -> bool {
        match self {
            Self::Workflow(own) => own == id,
            Self::Tag(name) => tags.contains(name),
            Self::Project(own) => projects.contains(own),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let filled = |value: &str| match value.trim() {
            "" => Err(format!("{text:?} has no value")),
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

#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// Only these workflows; all if empty.
    allow: Vec<Rule>,
    /// Not these, even if allowed.
    deny: Vec<Rule>,
    /// Workflows that were written here must be reviewed by a person before they are started.
    pub(crate) requires_review: bool,
}

impl Policy {
    pub(crate) fn new(allow: Vec<Rule>, deny: Vec<Rule>, requires_review: bool) -> Self {
        Self {
            allow,
            deny,
            requires_review,
        }
    }

    /// True if every workflow is allowed.
    pub(crate) fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether a workflow is allowed; `None` if that depends on its tags or projects.
    pub(crate) fn admits_id(&self, id: &str) -> Option<bool> {
        let names = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(id, &[], &[]));
        let is_id = |rule: &Rule| matches!(rule, Rule::Workflow(_));
        let by_id = |rules: &[Rule]| rules.iter().all(is_id);
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
        self.admits_all(workflow.id.as_str(), &workflow.tags, &workflow.projects)
    }

    /// Whether the workflow with this id, these tags and these projects is allowed.
    pub(crate) fn admits_all(&self, id: &str, tags: &[String], projects: &[String]) -> bool {
        let hit = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(id, tags, projects));
        !hit(&self.deny) && (self.allow.is_empty() || hit(&self.allow))
    }

    /// Rejects renaming, deleting or reusing a tag that decides what this server may do.
    pub(crate) fn check_tag(&self, name: &str) -> Result<(), ToolError> {
        let is_review = self.requires_review && name == REVIEW_TAG;
        let is_it = |rule: &Rule| matches!(rule, Rule::Tag(tag) if tag == name);
        let is_named = self.allow.iter().chain(&self.deny).any(is_it);
        refuse_if(is_review || is_named, || {
            format!(
                "The tag `{name}` decides which workflows this server may use: only a person may \
                 rename, delete or reuse it, in n8n."
            )
        })
    }

    /// Rejects creating a workflow that would not be among the allowed ones. In an allowed project it
    /// is known only afterwards.
    pub(crate) fn check_create(&self) -> Result<(), ToolError> {
        let is_project = |rule: &Rule| matches!(rule, Rule::Project(_));
        let is_closed = !self.allow.is_empty() && !self.allow.iter().any(is_project);
        refuse_if(is_closed, || NEW_IS_CLOSED.to_owned())
    }

    /// Rejects moving a workflow to a project where it would not be among the allowed ones.
    pub(crate) fn check_move(&self, workflow: &Workflow, project: &Id) -> Result<(), ToolError> {
        let project = [project.to_string()];
        let is_open = self.admits_all(workflow.id.as_str(), &workflow.tags, &project);
        refuse_if(!is_open, || {
            "Nothing was moved: in that project the workflow would not be among those to which the \
             operator limits this server (N8N_ALLOW_WORKFLOWS, N8N_DENY_WORKFLOWS)."
                .to_owned()
        })
    }

    /// Rejects an action that changes or shows workflows without naming each.
    pub(crate) fn check_all_open(&self, tool: &str) -> Result<(), ToolError> {
        refuse_if(!self.is_open(), || {
            format!(
                "{tool} reaches all workflows, and the operator limits this server to certain ones \
                 (N8N_ALLOW_WORKFLOWS, N8N_DENY_WORKFLOWS). Ask a person to do it in n8n."
            )
        })
    }

    /// Rejects activating or running a workflow that was not reviewed.
    pub(crate) fn check_start(&self, workflow: &Workflow) -> Result<(), ToolError> {
        refuse_if(self.awaits_review(&workflow.tags), || {
            format!(
                "Workflow {} was written through this server and has not been reviewed. A person \
                 must review it in n8n and remove its tag `{REVIEW_TAG}`; then it can be \
                 activated and run.",
                workflow.id
            )
        })
    }

    /// Rejects removing the tag of a workflow that was not reviewed.
    pub(crate) fn check_tags(&self, workflow: &Workflow, tags: &[String]) -> Result<(), ToolError> {
        refuse_if(
            self.awaits_review(&workflow.tags) && !self.awaits_review(tags),
            || format!("Only a person may remove the tag `{REVIEW_TAG}`, in n8n."),
        )
    }

    /// Rejects writing to an active workflow: the change could run before a person has seen it.
    pub(crate) fn check_write(&self, workflow: &Workflow) -> Result<(), ToolError> {
        refuse_if(self.requires_review && workflow.active, || {
            format!(
                "Workflow {} is active, and changes to an active workflow need a review by a \
                 person first (N8N_REQUIRE_REVIEW). Deactivate it first, or change a duplicate.",
                workflow.id
            )
        })
    }

    fn awaits_review(&self, tags: &[String]) -> bool {
        self.requires_review && tags.iter().any(|tag| tag == REVIEW_TAG)
    }
}

fn refuse_if(is_refused: bool, reason: impl FnOnce() -> String) -> Result<(), ToolError> {
    if is_refused {
        return Err(ToolError::forbidden(reason()));
    }
    Ok(())
}

pub(crate) const NEW_IS_CLOSED: &str = "Nothing was created: the operator limits this server to \
    certain workflows (N8N_ALLOW_WORKFLOWS), and a new one would not be among them.";

pub(crate) fn not_open(id: &Id) -> ToolError {
    ToolError::forbidden(format!(
        "Workflow {id} may not be used by this server: its operator limits it to certain \
         workflows (N8N_ALLOW_WORKFLOWS, N8N_DENY_WORKFLOWS)."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &str) -> Vec<Rule> {
        let texts = texts.split_whitespace();
        texts.map(|text| text.parse().unwrap()).collect()
    }

    fn workflow(id: &str, tags: &[String], project: &str) -> Workflow {
        let tags: Vec<_> = tags
            .iter()
            .map(|name| serde_json::json!({"name": name}))
            .collect();
        let json = serde_json::json!({
            "id": id, "name": "W", "tags": tags, "shared": [{"projectId": project}],
        });
        serde_json::from_value(json).unwrap()
    }

    /// `admits_id` decides without the workflow and must never contradict `admits`.
    #[test]
    fn deny_rules_override_allow_rules() {
        // Allow rules, deny rules; id, tags and project of a workflow; by its id alone, and with the rest.
        for (allow, deny, (id, tags, project), by_id, admitted) in [
            ("", "", ("w1", "", "p"), Some(true), true),
            ("w1", "", ("w1", "", "p"), Some(true), true),
            ("w1", "", ("w2", "", "p"), Some(false), false),
            ("w1", "w2", ("w1", "", "p"), Some(true), true),
            ("w1", "w2", ("w2", "", "p"), Some(false), false),
            ("w1", "w2", ("w3", "", "p"), Some(false), false),
            ("w1", "w1", ("w1", "", "p"), Some(false), false),
            ("", "w1", ("w1", "", "p"), Some(false), false),
            ("", "w1", ("w2", "", "p"), Some(true), true),
            // Tags and projects of a workflow are not known from its id.
            ("tag:open", "", ("w1", "open", "p"), None, true),
            ("tag:open", "", ("w1", "", "p"), None, false),
            ("tag:open w1", "", ("w1", "", "p"), Some(true), true),
            ("project:p", "", ("w1", "", "p"), None, true),
            ("project:p", "", ("w1", "", "q"), None, false),
            ("", "tag:closed", ("w1", "open", "p"), None, true),
            ("", "tag:closed", ("w1", "open closed", "p"), None, false),
            ("", "project:p", ("w1", "", "p"), None, false),
            ("w1", "tag:closed", ("w1", "closed", "p"), None, false),
            ("w1", "tag:closed", ("w1", "", "p"), None, true),
            (
                "tag:open",
                "tag:closed",
                ("w1", "open closed", "p"),
                None,
                false,
            ),
            ("", "tag:closed w1", ("w1", "", "p"), Some(false), false),
        ] {
            let policy = Policy::new(rules(allow), rules(deny), false);
            let text = format!("{allow} {deny} {id} {tags} {project}");
            let tags: Vec<_> = tags.split_whitespace().map(str::to_owned).collect();
            assert_eq!(policy.admits_id(id), by_id, "{text}");
            let workflow = workflow(id, &tags, project);
            assert_eq!(policy.admits(&workflow), admitted, "{text}");
            let is_open = allow.is_empty() && deny.is_empty();
            assert_eq!(policy.is_open(), is_open, "{text}");
        }
    }

    #[test]
    fn rule_is_an_id_a_tag_or_a_project() {
        assert_eq!("w1".parse(), Ok(Rule::Workflow("w1".into())));
        assert_eq!("tag: my tag".parse(), Ok(Rule::Tag("my tag".into())));
        assert_eq!("project:p".parse(), Ok(Rule::Project("p".into())));
        for bad in ["", "tag:", "a b", "owner:x"] {
            assert!(bad.parse::<Rule>().is_err(), "{bad:?}");
        }
    }
}
