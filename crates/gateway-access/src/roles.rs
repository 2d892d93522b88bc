//! Roles: the tools, prompts and resources that a caller may list and use, by its principal.
//!
//! An item that a role does not allow does not exist for its callers: the core leaves it out of their lists and
//! answers requests for it like those for unknown items.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fmt, iter};

use mcp_core::server::{AccessItem, Principal};
use mcp_core::tool::Effect;
use serde_json::value::RawValue;
use wildmatch::WildMatch;

use crate::arguments::ArgumentPatterns;
use crate::filter::uri_spellings;
use crate::own_tools::OWN_TOOLS;
use crate::rate::Limit;

/// The role of callers that may use nothing.
pub const NO_ROLE: &str = "none";

/// The roles, and the role of each principal. A change of the configuration makes new ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Roles {
    /// The first is [`NO_ROLE`]. Their positions are the groups of [`Access`](mcp_core::server::Access).
    pub roles: Vec<Role>,
    /// The lines of `[principals]`, by the name or claim of a principal.
    pub principals: BTreeMap<String, PrincipalLine>,
    /// The position of the role of all other callers.
    pub default: usize,
}

/// One line of `[principals]`. The first one that matches a principal counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrincipalLine {
    /// Its place in the file.
    pub order: usize,
    /// The position of the role.
    pub role: usize,
}

/// One role with the rules of those that it inherits from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// The items that its callers may use.
    pub allow: Vec<Rule>,
    /// Each goes before every allow rule.
    pub deny: Vec<Rule>,
    /// Tools about which the caller's user is asked.
    pub confirm: Vec<Rule>,
    /// Tools about which an operator decides.
    pub approve: Vec<Rule>,
    /// The tools of the gateway itself that its callers may use.
    pub rights: Vec<Right>,
    /// Its own, or the strictest of the roles that it inherits from.
    pub limit: Option<Limit>,
    /// The views that its callers can use; `None` for all, and for the gateway without a view.
    pub views: Option<Vec<Rule>>,
    /// Backends may ask its callers.
    pub questions: bool,
}

/// One pattern of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `*` stands for any text, `?` for one character.
    pub pattern: String,
    matcher: WildMatch,
    /// The backend and the URIs of a rule such as `docker:docker://logs/*`, about the resources of one backend.
    qualified: Option<(Box<str>, WildMatch)>,
    /// Only items with one of these effects match; `None` for all.
    pub effects: Option<Vec<EffectName>>,
    /// Only calls with such arguments match; `None` for all.
    pub arguments: Option<Arc<ArgumentPatterns>>,
    /// The table that declares it, such as `roles.reader` or `approvals`.
    pub table: Arc<str>,
    /// The name of its list, such as `allow`.
    pub list: &'static str,
    /// Its line in the file, counted from 1.
    pub line: usize,
}

/// An effect in a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EffectName {
    /// Changes nothing.
    Reads,
    /// Adds something.
    Additive,
    /// Changes something, and a second time nothing more.
    Idempotent,
    /// May lose something.
    Destructive,
}

/// A right to use a tool of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
pub enum Right {
    /// `get_events` shows the events of all callers and of the gateway.
    #[serde(rename = "events:all")]
    AllEvents,
    /// Decides about calls that wait for an operator.
    #[serde(rename = "approve")]
    Approve,
    /// `gateway_restart`.
    #[serde(rename = "gateway_restart")]
    Restart,
    /// `gateway_status`.
    #[serde(rename = "gateway_status")]
    Status,
}

/// Why a role allows an item, or not. Written for the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision<'a> {
    /// This rule allows it.
    Allowed(&'a Rule),
    /// This rule denies it.
    Denied(&'a Rule),
    /// A rule allows the name, but not this effect.
    OtherEffect(&'a Rule, EffectName),
    /// No rule allows it.
    NoRule,
    /// A URI that servers may read in different ways.
    AmbiguousUri,
    /// One of the gateway's own tools, and whether the role may use it.
    Own(bool),
    /// The view has no backend that may have it.
    NoBackend,
    /// The view calls it by this name.
    OtherName(&'a str),
}

impl Roles {
    /// The role of the callers whose token belongs to this principal.
    pub fn role(&self, principal: Option<&Principal>) -> &Role {
        &self.roles[self.group(principal)]
    }

    /// The role in the token file goes before `[principals]`. A role that does not exist allows nothing.
    pub fn group(&self, principal: Option<&Principal>) -> usize {
        let Some(principal) = principal else {
            return self.default;
        };
        if let Some(name) = principal.role() {
            let position = self.roles.iter().position(|role| role.name == name);
            return position.unwrap_or_default();
        }
        let keys = iter::once(&principal.name).chain(&principal.claims);
        let lines = keys.filter_map(|key| self.principals.get(&**key));
        lines.min().map_or(self.default, |line| line.role)
    }
}

impl Role {
    /// A role with this name that allows nothing.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            questions: true,
            ..Self::default()
        }
    }

    /// True if its callers have the right.
    pub fn has(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// All its rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let rules = self.allow.iter().chain(&self.deny);
        rules.chain(&self.confirm).chain(&self.approve)
    }

    /// True if its callers can use this view.
    pub fn may_use_view(&self, name: &str) -> bool {
        let views = self.views.as_ref();
        views.is_none_or(|views| views.iter().any(|rule| rule.matches(name)))
    }

    /// Decides about one item; `owner` is the backend of a resource, `None` for whichever has it.
    pub fn decide(&self, item: AccessItem<'_>, owner: Option<&str>) -> Decision<'_> {
        let (spellings, effect) = match item {
            AccessItem::Tool { name, .. } if OWN_TOOLS.contains(&name) => {
                return Decision::Own(self.may_use_own(name));
            }
            // A name that is not in the catalog may be in the form `KEY:NAME`.
            AccessItem::Tool { name, effect: None } => {
                (vec![name.replacen([':', '.'], "__", 1).into()], None)
            }
            AccessItem::Tool {
                name,
                effect: Some(effect),
            } => (vec![name.into()], Some(EffectName::from_effect(effect))),
            AccessItem::Prompt(name) => (vec![name.into()], Some(EffectName::Reads)),
            AccessItem::Resource(uri) => match uri_spellings(uri) {
                Some(spellings) => (spellings, Some(EffectName::Reads)),
                None => return Decision::AmbiguousUri,
            },
        };
        let matches = |rule: &Rule, name: &str| {
            rule.matcher.matches(name) || owner.is_some_and(|owner| rule.matches_of(name, owner))
        };
        let is_denied = |rule: &&Rule| spellings.iter().any(|name| matches(rule, name));
        if let Some(rule) = self.deny.iter().find(is_denied) {
            return Decision::Denied(rule);
        }
        // A URI that is spelled in another way has to be allowed in both ways.
        let named = |rule: &&Rule| spellings.iter().all(|name| matches(rule, name));
        let mut other = Decision::NoRule;
        for rule in self.allow.iter().filter(named) {
            match effect {
                Some(effect) if !rule.has_effect(effect) => {
                    other = Decision::OtherEffect(rule, effect);
                }
                _ => return Decision::Allowed(rule),
            }
        }
        other
    }

    /// The `allow` rules about a tool, in their order. Without an effect those of all effects.
    pub fn allowing<'a>(
        &'a self,
        tool: &'a str,
        effect: Option<Effect>,
    ) -> impl Iterator<Item = &'a Rule> {
        let effect = effect.map(EffectName::from_effect);
        let rules = self.allow.iter().filter(|rule| rule.matches(tool));
        rules.filter(move |rule| effect.is_none_or(|effect| rule.has_effect(effect)))
    }

    /// True if one of its rules is about the arguments of calls.
    pub fn judges_arguments(&self) -> bool {
        self.allow.iter().any(|rule| rule.arguments.is_some())
    }

    /// Decides about a call of a tool that it allows. Returns the rule that allows the call; `None` for a tool of the
    /// gateway itself, which no rule names.
    ///
    /// # Errors
    /// Why no rule allows a call with these arguments, without a value of them. Written for the operator.
    pub fn judge<'a>(
        &'a self,
        tool: &'a str,
        effect: Option<Effect>,
        arguments: &RawValue,
    ) -> Result<Option<&'a Rule>, String> {
        if OWN_TOOLS.contains(&tool) {
            return Ok(None);
        }
        let mut denial = None;
        for rule in self.allowing(tool, effect) {
            let Some(patterns) = &rule.arguments else {
                return Ok(Some(rule));
            };
            match patterns.check(arguments) {
                Ok(()) => return Ok(Some(rule)),
                Err(why) => denial = denial.or(Some(format!("denied by {patterns}: {why}"))),
            }
        }
        denial.map_or(Ok(None), Err)
    }

    /// The search tools list and call nothing that the role does not allow.
    fn may_use_own(&self, tool: &str) -> bool {
        let is_used = !self.allow.is_empty();
        match tool {
            "gateway_restart" => self.has(Right::Restart),
            "gateway_status" => self.has(Right::Status),
            "get_events" => is_used || self.has(Right::AllEvents),
            _ => is_used,
        }
    }
}

impl Rule {
    /// A rule of the list `list` of `table`, in this line.
    pub fn new(pattern: String, table: Arc<str>, list: &'static str, line: usize) -> Self {
        let named = pattern.split_once(':').filter(|(backend, uris)| {
            let is_uri = uris.contains("://");
            is_uri && !backend.contains(['*', '?'])
        });
        Self {
            matcher: WildMatch::new(&pattern),
            qualified: named.map(|(backend, uris)| (backend.into(), WildMatch::new(uris))),
            pattern,
            effects: None,
            arguments: None,
            table,
            list,
            line,
        }
    }

    /// The path of its list in the file.
    pub fn field(&self) -> Vec<&str> {
        self.table.split('.').chain([self.list]).collect()
    }

    /// True if it is about the tool or view with this name.
    pub fn matches(&self, tool: &str) -> bool {
        self.matcher.matches(tool)
    }

    /// True if it is about the resources of one backend, and this is the URI of one of them.
    fn matches_of(&self, uri: &str, owner: &str) -> bool {
        let qualified = self.qualified.as_ref();
        qualified.is_some_and(|(backend, uris)| **backend == *owner && uris.matches(uri))
    }

    fn has_effect(&self, effect: EffectName) -> bool {
        let effects = self.effects.as_ref();
        effects.is_none_or(|effects| effects.contains(&effect))
    }

    /// True if it makes calls need a person.
    pub fn needs_person(&self) -> bool {
        ["confirm", "approve"].contains(&self.list)
    }
}

impl EffectName {
    /// The name of an effect.
    pub fn from_effect(effect: Effect) -> Self {
        match effect {
            Effect::ReadOnly => Self::Reads,
            Effect::Additive => Self::Additive,
            Effect::Idempotent => Self::Idempotent,
            Effect::Destructive | Effect::PartlyDestructive => Self::Destructive,
        }
    }
}

impl Decision<'_> {
    /// True if the item may be used.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed(_) | Self::Own(true))
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reads => "reads",
            Self::Additive => "additive",
            Self::Idempotent => "idempotent",
            Self::Destructive => "destructive",
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pattern,
            table,
            list,
            line,
            ..
        } = self;
        write!(f, "line {line}: {table}.{list}: {pattern:?}")
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed(rule) => {
                write!(f, "allowed by {rule}")?;
                if let Some(effects) = &rule.effects {
                    let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
                    write!(f, ", if its effect is one of: {}", effects.join(", "))?;
                }
                match &rule.arguments {
                    Some(patterns) => write!(f, ", if its arguments match {patterns}"),
                    None => Ok(()),
                }
            }
            Self::Denied(rule) => write!(f, "denied by {rule}"),
            Self::OtherEffect(rule, effect) => {
                write!(f, "denied: {rule} does not allow the effect {effect}")
            }
            Self::AmbiguousUri => f.write_str("denied: a URI with `..`, tabs or the like"),
            Self::NoRule => f.write_str("denied: no rule allows it"),
            Self::NoBackend => f.write_str("denied: of none of its backends"),
            Self::OtherName(name) => write!(f, "denied: it is {name} there"),
            Self::Own(true) => f.write_str("allowed: a tool of the gateway"),
            Self::Own(false) => f.write_str("denied: `own` does not have it"),
        }
    }
}

#[cfg(test)]
mod tests;
