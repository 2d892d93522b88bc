//! One rule about workflows, as it is written on the command line.

use std::str::FromStr;

use crate::api::Tag;
use crate::id::Id;

/// Workflows by what they have in common: `ID`, `tag:NAME` or `project:ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Workflow(String),
    Tag(String),
    Project(String),
}

impl Rule {
    pub(super) fn is_of_an_id(&self) -> bool {
        matches!(self, Self::Workflow(_))
    }

    pub(super) fn names(&self, id: &str) -> bool {
        matches!(self, Self::Workflow(own) if own == id)
    }

    pub(super) fn matches(&self, id: &str, tags: &[Tag], projects: &[&str]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
