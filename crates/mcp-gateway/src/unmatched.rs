//! Rules of the configuration that match nothing. A misspelled rule is no rule, and its author does not know.
//!
//! The names are known once the backends have listed their tools, so this is told while the gateway runs, by `doctor`, and
//! at every change of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use gateway_access::{Filter, GUARDED_OWN_TOOL, NO_ROLE, Role, Rule};
use mcp_core::server::Principal;
use mcp_core::suggestion::nearest;

use crate::backend::{Backend, ListedItem, Snapshot};
use crate::catalog::MergedCatalog;
use crate::config::{BackendKey, Config};

/// A rule that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnmatchedRule {
    /// Its line in the file, if it is known.
    pub(crate) line: Option<usize>,
    /// Its list or table, such as `roles.reader.deny`.
    pub(crate) field: String,
    /// Its pattern, and the name that may be meant.
    pub(crate) text: String,
    /// True if what it is meant for is open without it.
    pub(crate) opens: bool,
}

impl UnmatchedRule {
    fn new<'a>(
        (line, field): (Option<usize>, String),
        pattern: &str,
        known: impl Iterator<Item = &'a str>,
        opens: bool,
    ) -> Self {
        let text = match nearest(pattern, known).first() {
            Some(nearest) => format!("{pattern:?} matches nothing; did you mean {nearest:?}?"),
            None => format!("{pattern:?} matches nothing"),
        };
        Self {
            line,
            field,
            text,
            opens,
        }
    }
}

impl fmt::Display for UnmatchedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}", self.field, self.text)
    }
}

/// The items that rules can match: those of the backends whose lists are known.
struct KnownItems<'a> {
    config: &'a Config,
    lists: BTreeMap<&'a BackendKey, Arc<Snapshot>>,
    /// The published names of tools and prompts.
    names: BTreeSet<&'a str>,
}

/// Finds the rules of `config` that match nothing of what the backends list. `principals` are the owners of tokens, if all
/// are known.
pub(crate) fn find(
    config: &Config,
    catalog: &MergedCatalog,
    backends: &BTreeMap<BackendKey, Arc<Backend>>,
    principals: Option<&[Arc<Principal>]>,
) -> Vec<UnmatchedRule> {
    let is_known = |key: &BackendKey, backend: &Backend| {
        let is_same = config.backends.get(key) == Some(&backend.config);
        is_same && backend.has_listed()
    };
    let known = backends
        .iter()
        .filter(|(key, backend)| is_known(key, backend));
    let tools = catalog
        .lists
        .tools
        .iter()
        .map(|(tool, _)| tool.name.as_str());
    let prompts = catalog
        .lists
        .prompts
        .iter()
        .map(|(prompt, _)| &*prompt.name);
    let items = KnownItems {
        config,
        lists: known
            .map(|(key, backend)| (key, backend.snapshot()))
            .collect(),
        names: tools.chain(prompts).collect(),
    };
    let mut found = items.of_rules();
    found.extend(items.of_arguments(catalog));
    for key in items.lists.keys() {
        found.extend(items.of_backend(key));
    }
    found.extend(
        principals
            .into_iter()
            .flat_map(|all| of_principals(config, all)),
    );
    // An inherited rule is one of each role.
    found.sort();
    found.dedup();
    found
}

impl KnownItems<'_> {
    fn of_rules(&self) -> Vec<UnmatchedRule> {
        let config = self.config;
        let roles = config.roles.iter().flat_map(|roles| &roles.roles);
        let of_views = config.views.iter().map(|view| &view.rules);
        let approvals = config.approvals.confirm.iter();
        let approvals = approvals.chain(&config.approvals.approve);
        let rules = roles.chain(of_views).flat_map(Role::rules).chain(approvals);
        let recorded = config.record.iter().map(|(tools, _)| tools);
        let unmatched = rules.chain(recorded).filter(|rule| !self.may_match(rule));
        let named = unmatched.map(|rule| {
            let line = Some(rule.line).filter(|line| *line > 0);
            let place = (line, rule.field().join("."));
            let names = self.names.iter().copied();
            let opens = rule.list == "deny" || rule.needs_person();
            UnmatchedRule::new(place, &rule.pattern, names, opens)
        });
        named.collect()
    }

    /// The named arguments that none of the tools has for which they count: such a role allows no call, and such a line of
    /// `record` records nothing.
    fn of_arguments(&self, catalog: &MergedCatalog) -> Vec<UnmatchedRule> {
        if !self.is_complete() {
            return Vec::new();
        }
        let roles = self.config.roles.iter().flat_map(|roles| &roles.roles);
        // The tools of each table, whose rules share their patterns.
        let mut tables: BTreeMap<_, (_, BTreeSet<&str>)> = BTreeMap::new();
        for rule in roles.flat_map(Role::rules) {
            let Some(patterns) = &rule.arguments else {
                continue;
            };
            let tools = catalog.lists.tools.iter().map(|(tool, _)| tool);
            let allowed = tools.filter(|tool| rule.matches(&tool.name));
            let properties = allowed.filter_map(|tool| tool.input_schema["properties"].as_object());
            let names = properties.flat_map(|all| all.keys().map(String::as_str));
            let table = tables.entry((patterns.line, patterns.table.clone()));
            let (_, known) = table.or_insert_with(|| (patterns, BTreeSet::new()));
            known.extend(names);
        }
        let mut found = Vec::new();
        for (tools, argument) in &self.config.record {
            let matched = catalog.lists.tools.iter().map(|(tool, _)| tool);
            let matched = matched.filter(|tool| tools.matches(&tool.name));
            let schemas = matched.map(|tool| tool.input_schema["properties"].as_object());
            // A tool that does not say which arguments it has may have any.
            let Some(schemas) = schemas.collect::<Option<Vec<_>>>() else {
                continue;
            };
            let names = || {
                schemas
                    .iter()
                    .flat_map(|all| all.keys().map(String::as_str))
            };
            if !schemas.is_empty() && !names().any(|name| argument.matches(name)) {
                let place = (None, "events.record".to_owned());
                found.push(UnmatchedRule::new(place, &argument.pattern, names(), false));
            }
        }
        for ((line, table), (patterns, known)) in tables {
            for name in patterns.names().filter(|name| !known.contains(name)) {
                let place = (Some(line), format!("{table}.arguments"));
                let known = known.iter().copied();
                found.push(UnmatchedRule::new(place, name, known, false));
            }
        }
        found
    }

    /// True if the rule matches an item, or may match one that is not known.
    fn may_match(&self, rule: &Rule) -> bool {
        let pattern = rule.pattern.as_str();
        if pattern == "*" {
            return true;
        }
        let is_guarded = rule.needs_person() && rule.matches(GUARDED_OWN_TOOL);
        if let Some((_, rest)) = pattern.split_once(':') {
            return !rest.contains("//") || self.may_match_uri(pattern);
        }
        let literal = pattern.split(['*', '?']).next().unwrap_or_default();
        let backend = literal.split_once("__").map(|(key, _)| key);
        let has_bare = self.config.backends.values().any(|backend| backend.bare);
        let is_known = match backend.filter(|_| !has_bare) {
            Some(key) => self.list_of(key).is_some(),
            None => self.is_complete(),
        };
        !is_known || is_guarded || self.names.iter().any(|name| rule.matches(name))
    }

    fn may_match_uri(&self, pattern: &str) -> bool {
        // A rule may name the backend before the URI.
        let qualified = pattern
            .split_once(':')
            .filter(|(_, rest)| rest.contains("://"));
        let (lists, pattern): (Vec<&Snapshot>, &str) = match qualified {
            Some((key, uris)) => match self.list_of(key) {
                Some(list) => (vec![list], uris),
                None => return true,
            },
            None if !self.is_complete() => return true,
            None => (self.lists.values().map(|list| &**list).collect(), pattern),
        };
        lists.into_iter().any(|list| has_uri(list, pattern))
    }

    fn list_of(&self, key: &str) -> Option<&Snapshot> {
        let mut lists = self.lists.iter();
        lists
            .find(|(known, _)| known.as_str() == key)
            .map(|(_, list)| &**list)
    }

    /// True if the lists of all backends are known that are used.
    fn is_complete(&self) -> bool {
        let used = self.config.backends.iter();
        let mut used = used.filter(|(_, backend)| backend.disabled.is_none());
        used.all(|(key, _)| self.lists.contains_key(key))
    }

    /// The rules in the table of one backend, which are about the names in its own list.
    fn of_backend(&self, key: &BackendKey) -> Vec<UnmatchedRule> {
        let (Some(config), Some(list)) = (self.config.backends.get(key), self.lists.get(key))
        else {
            return Vec::new();
        };
        let id = |item: &ListedItem| item.id.clone();
        let names: Vec<String> = list.tools.iter().chain(&list.prompts).map(id).collect();
        let known = || names.iter().map(String::as_str);
        let mut found = Vec::new();
        for (kind, pattern) in config.filter.patterns() {
            let only = Filter::new(std::slice::from_ref(&pattern), &[]);
            if !known().any(|name| only.allows(name)) && !has_uri(list, &pattern) {
                let place = (None, format!("backends.{key}.{kind}"));
                found.push(UnmatchedRule::new(place, &pattern, known(), kind == "deny"));
            }
        }
        for (tool, own) in &config.tools {
            if !list.tools.iter().any(|item| item.id == *tool) {
                let place = (None, format!("backends.{key}.tools.{tool}"));
                found.push(UnmatchedRule::new(place, tool, known(), own.restricts()));
            }
        }
        found
    }
}

/// True if a pattern matches a resource of the list, or one that a template may have.
fn has_uri(list: &Snapshot, pattern: &str) -> bool {
    let only = Filter::new(&[pattern.to_owned()], &[]);
    let literal = pattern.split(['*', '?']).next().unwrap_or_default();
    let may_be_of = |template: &ListedItem| {
        let start = template.id.split('{').next().unwrap_or_default();
        start.starts_with(literal) || literal.starts_with(start)
    };
    let mut templates = list.templates.iter();
    list.resources.iter().any(|item| only.allows(&item.id)) || templates.any(may_be_of)
}

/// The lines of `[principals]` for names that no token has, and the roles of tokens that are not there. A line leaves
/// something open if it may be meant for a token that has no line, and has another role without it.
fn of_principals(config: &Config, tokens: &[Arc<Principal>]) -> Vec<UnmatchedRule> {
    let Some(roles) = &config.roles else {
        return Vec::new();
    };
    let names = || tokens.iter().map(|token| &*token.name);
    let lines = roles.principals.iter();
    let lines = lines.filter(|(name, _)| !Principal::is_claim(name));
    let unknown = lines.filter(|(name, _)| !names().any(|known| known == name.as_str()));
    let unknown = unknown.map(|(name, line)| {
        let place = (None, "principals".to_owned());
        let has_line = |token: &Principal| roles.principals.contains_key(&*token.name);
        let mut others = tokens.iter().filter(|token| !has_line(token));
        let opens = others.any(|token| ![0, line.role].contains(&roles.group(Some(token))));
        UnmatchedRule::new(place, name, names(), opens)
    });
    let known_roles = || roles.roles.iter().map(|role| role.name.as_str());
    let without_role = tokens.iter().filter_map(|token| {
        let role = token.role()?;
        let place = (None, format!("the role of the token {}", token.name));
        let is_known = role == NO_ROLE || known_roles().any(|known| known == role);
        (!is_known).then(|| UnmatchedRule::new(place, role, known_roles(), false))
    });
    unknown.chain(without_role).collect()
}
