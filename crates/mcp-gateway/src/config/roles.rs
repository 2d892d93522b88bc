//! Parses the tables `[roles.NAME]` and `[principals]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use gateway_access::{
    ArgumentPattern, ArgumentPatterns, EffectName, GUARDED_OWN_TOOL, Limit, NO_ROLE, OWN_TOOLS,
    PrincipalLine, Rate, Right, Role, Roles, Rule,
};
use mcp_core::suggestion::suggestion;
use serde::Deserialize;
use toml::Spanned;

use super::approvals::{self, Approve};
use super::error::{Problem, line_at};
use super::{BackendKey, Config};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleEntry {
    #[serde(default)]
    inherits: Vec<String>,
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    #[serde(default)]
    confirm: Vec<Spanned<String>>,
    #[serde(default)]
    approve: Approve,
    effects: Option<Vec<EffectName>>,
    #[serde(default)]
    own: Vec<Right>,
    arguments: Option<Spanned<BTreeMap<String, toml::Value>>>,
    limit: Option<Spanned<String>>,
    views: Option<Vec<Spanned<String>>>,
}

/// The name of the principals that have no entry of their own.
const DEFAULT: &str = "default";

/// Builds the roles of a file with this text; `None` if it has none.
pub(super) fn build(
    text: &str,
    roles: &BTreeMap<String, RoleEntry>,
    principals: &BTreeMap<String, Spanned<String>>,
) -> Result<Option<Roles>, Problem> {
    if roles.is_empty() {
        let text = "needs a role: add a table [roles.NAME]";
        return match principals.is_empty() {
            true => Ok(None),
            false => Err(Problem::new(&["principals"], text)),
        };
    }
    let builder = Builder::new(text, roles)?;
    let mut built = vec![Role {
        name: NO_ROLE.to_owned(),
        ..Role::default()
    }];
    for (name, entry) in roles {
        builder.check(name, entry)?;
        let mut role = Role {
            name: name.clone(),
            ..Role::default()
        };
        builder.add(&mut role, name, &mut Vec::new())?;
        built.push(role);
    }
    let position = |field: &str, name: &str| {
        let position = built.iter().position(|role| role.name == *name);
        position.ok_or_else(|| Problem::new(&["principals", field], unknown(name, roles, true)))
    };
    let mut lines = BTreeMap::new();
    for (principal, role) in principals {
        if principal.starts_with("role:") {
            let text = "a role is given to a token in the token file; `[principals]` knows the names of \
                        tokens, \"sub:…\", \"group:…\" and \"scope:…\"";
            return Err(Problem::new(&["principals", principal], text));
        }
        let line = PrincipalLine {
            order: role.span().start,
            role: position(principal, role.as_ref())?,
        };
        lines.insert(principal.clone(), line);
    }
    let default = lines.remove(DEFAULT).map_or(0, |line| line.role);
    Ok(Some(Roles {
        roles: built,
        principals: lines,
        default,
    }))
}

/// Checks that each rule can match something: a name begins with that of a backend.
pub(super) fn check_backends(config: &Config) -> Result<(), (usize, Problem)> {
    let roles = config.roles.iter().flat_map(|roles| &roles.roles);
    let of_roles = roles.flat_map(Role::rules);
    let of_all = config.approvals.confirm.iter();
    let mut rules = of_roles.chain(of_all).chain(&config.approvals.approve);
    rules.try_for_each(|rule| check_rule(rule, config))
}

/// True for a rule that asks a person and matches tools of the gateway that are never asked about, and no other:
/// `*` is about the tools of backends, too.
fn is_only_own(rule: &Rule, literal: &str, config: &Config) -> bool {
    let has_bare = config.backends.values().any(|backend| backend.bare);
    let is_own = OWN_TOOLS.iter().any(|tool| rule.matches(tool));
    let mut backends = config.backends.keys();
    let is_other = has_bare || backends.any(|key| key.as_str().starts_with(literal));
    rule.needs_person() && is_own && !is_other && !rule.matches(GUARDED_OWN_TOOL)
}

fn check_rule(rule: &Rule, config: &Config) -> Result<(), (usize, Problem)> {
    let has_bare = config.backends.values().any(|backend| backend.bare);
    let is_uri = rule.pattern.contains(':');
    let literal = rule.pattern.split(['*', '?']).next().unwrap_or_default();
    let key = match literal.split_once("__") {
        Some((key, _)) => key,
        None if is_only_own(rule, literal, config) => literal,
        None if literal.len() < rule.pattern.len() => return Ok(()),
        None => literal,
    };
    let is_known = config.backends.keys().any(|known| known.as_str() == key);
    let is_own = OWN_TOOLS.contains(&literal);
    let is_guarded = literal == GUARDED_OWN_TOOL && rule.needs_person();
    if is_uri || has_bare && !is_own || is_known || is_guarded {
        return Ok(());
    }
    let keys = config.backends.keys().map(BackendKey::as_str);
    let text = match is_own || is_only_own(rule, literal, config) {
        true if rule.needs_person() => format!(
            "names a tool of the gateway; of these a person can be asked about {GUARDED_OWN_TOOL} only, and `own` \
             allows the others"
        ),
        true => "names a tool of the gateway, which `own` allows".to_owned(),
        false => format!(
            "{:?} matches nothing: names begin with that of a backend and `__`{}",
            rule.pattern,
            suggestion(key, keys)
        ),
    };
    Err((rule.line, Problem::new(&rule.field(), text)))
}

struct Builder<'a> {
    text: &'a str,
    roles: &'a BTreeMap<String, RoleEntry>,
    /// The patterns for arguments and the limit that each role declares itself.
    declared: BTreeMap<&'a str, (Option<Arc<ArgumentPatterns>>, Option<Limit>)>,
}

impl<'a> Builder<'a> {
    /// Each is parsed once, and not for each role that inherits it.
    fn new(text: &'a str, roles: &'a BTreeMap<String, RoleEntry>) -> Result<Self, Problem> {
        let mut declared = BTreeMap::new();
        for (name, entry) in roles {
            let wrong = |field, text: String| Problem::new(&["roles", name, field], text);
            let arguments = entry.arguments.as_ref().map(|arguments| {
                let line = line_at(text, arguments.span().start);
                let patterns = argument_patterns(name, arguments.as_ref())?;
                let table = format!("roles.{name}").into();
                Ok(Arc::new(ArgumentPatterns::new(patterns, table, line)))
            });
            let limit = entry.limit.as_ref().map(|limit| {
                let rate =
                    Rate::parse(limit.as_ref()).map_err(|text| wrong("limit", text.to_owned()))?;
                let (role, line) = (name.as_str().into(), line_at(text, limit.span().start));
                Ok(Limit { rate, role, line })
            });
            declared.insert(name.as_str(), (arguments.transpose()?, limit.transpose()?));
        }
        Ok(Self {
            text,
            roles,
            declared,
        })
    }

    fn check(&self, name: &str, entry: &RoleEntry) -> Result<(), Problem> {
        let wrong = |field: &str, text: String| Err(Problem::new(&["roles", name, field], text));
        if [NO_ROLE, DEFAULT].contains(&name) {
            return Err(Problem::new(&["roles", name], "is a reserved name"));
        }
        if entry.effects.as_ref().is_some_and(Vec::is_empty) {
            return wrong("effects", "must name at least one effect".to_owned());
        }
        if entry.effects.is_some() && entry.allow.is_empty() {
            return wrong("effects", "needs `allow`, whose rules it limits".to_owned());
        }
        if entry.arguments.is_some() && entry.allow.is_empty() {
            return wrong(
                "arguments",
                "needs `allow`, whose rules it limits".to_owned(),
            );
        }
        let denied = |rule: &&Spanned<String>| {
            let denied = |other: &Spanned<String>| other.as_ref() == rule.as_ref();
            entry.deny.iter().any(denied)
        };
        if let Some(rule) = entry.allow.iter().find(denied) {
            return wrong("allow", format!("{:?} is in `deny` too", rule.as_ref()));
        }
        let blank = |rule: &&Spanned<String>| rule.as_ref().trim().is_empty();
        if entry
            .allow
            .iter()
            .chain(&entry.deny)
            .any(|rule| blank(&rule))
        {
            return wrong("allow", "must not have an empty pattern".to_owned());
        }
        Ok(())
    }

    /// Adds the rules of the role `name` and of those that it inherits from to `role`. `path` has the roles
    /// through which it was reached.
    fn add(&self, role: &mut Role, name: &str, path: &mut Vec<String>) -> Result<(), Problem> {
        let from = path.last().map_or(name, String::as_str).to_owned();
        let field = ["roles", from.as_str(), "inherits"];
        let Some(entry) = self.roles.get(name) else {
            return Err(Problem::new(&field, unknown(name, self.roles, false)));
        };
        if path.iter().any(|other| other == name) {
            return Err(Problem::new(&field, format!("{name} inherits from itself")));
        }
        let declared: Arc<str> = format!("roles.{name}").into();
        let rule = |list: &'static str, pattern: &Spanned<String>| {
            let line = line_at(self.text, pattern.span().start);
            Rule::new(pattern.as_ref().clone(), Arc::clone(&declared), list, line)
        };
        role.deny
            .extend(entry.deny.iter().map(|pattern| rule("deny", pattern)));
        let of_persons = approvals::rules(&entry.confirm, &entry.approve, rule);
        let wrong = |text| Problem::new(&["roles", name, "approve"], text);
        let [confirm, approve] = of_persons.map_err(wrong)?;
        role.confirm.extend(confirm);
        role.approve.extend(approve);
        let (arguments, limit) = self.declared.get(name).cloned().unwrap_or_default();
        let allowed = |pattern| {
            let rule = rule("allow", pattern).with_effects(entry.effects.clone());
            rule.with_arguments(arguments.clone())
        };
        role.allow.extend(entry.allow.iter().map(allowed));
        role.rights.extend(&entry.own);
        // The own list counts, otherwise those that are inherited.
        if let Some(views) = &entry.views {
            let views = views.iter().map(|pattern| rule("views", pattern));
            role.views.get_or_insert_default().extend(views);
        }
        let own_views = role.views.clone().filter(|_| entry.views.is_some());
        let has_own = path.is_empty() && limit.is_some();
        if let Some(limit) = limit {
            let known = role.limit.as_ref();
            if known.is_none_or(|known| limit.rate.is_stricter_than(known.rate)) {
                role.limit = Some(limit);
            }
        }
        let own = role.limit.clone().filter(|_| has_own);
        path.push(name.to_owned());
        for inherited in &entry.inherits {
            self.add(role, inherited, path)?;
        }
        path.pop();
        if own.is_some() {
            role.limit = own;
        }
        if own_views.is_some() {
            role.views = own_views;
        }
        Ok(())
    }
}

/// Reads the values that the arguments of a call may have.
fn argument_patterns(
    role: &str,
    arguments: &BTreeMap<String, toml::Value>,
) -> Result<BTreeMap<String, ArgumentPattern>, Problem> {
    let wrong = |text: &str| Problem::new(&["roles", role, "arguments"], text.to_owned());
    let pattern = |(name, value): (&String, &toml::Value)| {
        let pattern = match value {
            toml::Value::String(text) => Some(ArgumentPattern::texts([text.as_str()])),
            toml::Value::Boolean(flag) => Some(ArgumentPattern::flag(*flag)),
            toml::Value::Array(texts) if !texts.is_empty() => {
                let texts: Option<Vec<&str>> = texts.iter().map(toml::Value::as_str).collect();
                texts.map(ArgumentPattern::texts)
            }
            _ => None,
        };
        let text = format!("{name:?} must be a pattern, a list of patterns, or true or false");
        Ok((name.clone(), pattern.ok_or_else(|| wrong(&text))?))
    };
    arguments.iter().map(pattern).collect()
}

fn unknown(name: &str, roles: &BTreeMap<String, RoleEntry>, or_none: bool) -> String {
    let none = or_none.then_some(NO_ROLE);
    let names = roles.keys().map(String::as_str).chain(none);
    format!("there is no role {name:?}{}", suggestion(name, names))
}
