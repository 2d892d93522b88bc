//! Parses the tables `[roles.NAME]` and `[principals]`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gateway_access::{
    ArgumentPattern, ArgumentPatterns, EffectName, GUARDED_OWN_TOOL, Limit, NO_ROLE, OWN_TOOLS,
    OwnTool, PrincipalLine, Rate, Right, Role, Roles, Rule, View, ViewTool, WITHOUT_VIEW,
};
use mcp_core::suggestion::suggestion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::backend::{MAX_NAME_LEN, is_portable};
use super::reader::{line_at, line_of};
use super::{BackendKey, Config, ConfigError};

// Not documentation, which would be a part of the schema: the patterns of a list, with their places in the file.
#[derive(Default, Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
pub(super) struct Patterns(#[schemars(with = "Vec<String>")] Vec<Spanned<String>>);

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RoleEntry {
    inherits: Vec<String>,
    allow: Patterns,
    deny: Patterns,
    confirm: Patterns,
    approve: Patterns,
    effects: Option<Vec<EffectName>>,
    own: Vec<Right>,
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    arguments: Option<Spanned<BTreeMap<String, toml::Value>>>,
    #[schemars(with = "Option<String>")]
    limit: Option<Spanned<String>>,
    views: Option<Patterns>,
    questions: Option<bool>,
}

/// The name of the principals that have no entry of their own.
const DEFAULT: &str = "default";

/// Builds the roles of a file with this text; `None` if it has none.
pub(super) fn build(
    text: &str,
    roles: &BTreeMap<String, RoleEntry>,
    principals: &BTreeMap<String, Spanned<String>>,
) -> Result<Option<Roles>, ConfigError> {
    if roles.is_empty() {
        let text = "needs a role: add a table [roles.NAME]";
        return match principals.is_empty() {
            true => Ok(None),
            false => Err(ConfigError::new(&["principals"], text)),
        };
    }
    let builder = Builder { text, roles };
    let mut built = vec![Role::named(NO_ROLE)];
    for (name, entry) in roles {
        check(name, entry)?;
        built.push(builder.role(name, &mut Vec::new())?);
    }
    let position = |field: &str, name: &str| {
        let position = built.iter().position(|role| role.name == *name);
        position.ok_or_else(|| ConfigError::new(&["principals", field], unknown(name, roles, true)))
    };
    let mut lines = BTreeMap::new();
    for (principal, role) in principals {
        if principal.starts_with("role:") {
            let text = "a role is given to a token in the token file; `[principals]` knows the names of \
                        tokens, \"sub:…\", \"group:…\" and \"scope:…\"";
            return Err(ConfigError::new(&["principals", principal], text));
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

/// Checks what is known only with all backends, also those of the command line: that each rule, view and new name of a
/// tool can match something.
pub(super) fn validate(config: &Config) -> Result<(), ConfigError> {
    let roles = || config.roles.iter().flat_map(|roles| &roles.roles);
    let of_all = config.approvals.confirm.iter();
    let of_all = of_all.chain(&config.approvals.approve);
    for rule in roles().flat_map(Role::rules).chain(of_all) {
        check_rule(rule, config)?;
    }
    for view in &config.views {
        check_view(view, config)?;
    }
    let views = config.views.iter().map(|view| &*view.name);
    let views: Vec<&str> = views.chain([WITHOUT_VIEW]).collect();
    for rule in roles().flat_map(|role| role.views.iter().flatten()) {
        if !views.iter().any(|name| rule.matches(name)) {
            let hint = suggestion(&rule.pattern, views.iter().copied());
            let text = format!("{:?} matches no view{hint}", rule.pattern);
            return Err(ConfigError::of_rule(rule, text));
        }
    }
    Ok(())
}

/// True for a rule that asks a person and matches tools of the gateway that are never asked about, and no other:
/// `*` is about the tools of backends, too.
fn is_only_own(rule: &Rule, config: &Config) -> bool {
    let literal = literal(&rule.pattern);
    let has_bare = config.backends.values().any(|backend| backend.bare);
    let is_own = OWN_TOOLS.iter().any(|tool| rule.matches(tool));
    let mut backends = config.backends.keys();
    let is_other = has_bare || backends.any(|key| key.as_str().starts_with(literal));
    rule.needs_person() && is_own && !is_other && !rule.matches(GUARDED_OWN_TOOL)
}

fn check_rule(rule: &Rule, config: &Config) -> Result<(), ConfigError> {
    let pattern = rule.pattern.as_str();
    let has_bare = config.backends.values().any(|backend| backend.bare);
    let is_guarded = pattern == GUARDED_OWN_TOOL && rule.needs_person();
    let keys = || config.backends.keys().map(BackendKey::as_str);
    let text = match unknown_backend(pattern, keys()) {
        _ if is_guarded => return Ok(()),
        _ if OWN_TOOLS.contains(&pattern) || is_only_own(rule, config) => {
            match rule.needs_person() {
                true => format!(
                    "names a tool of the gateway; of these a person can be asked about {GUARDED_OWN_TOOL} only, and \
                     `own` allows the others"
                ),
                false => "names a tool of the gateway, which `own` allows".to_owned(),
            }
        }
        Some(key) if !has_bare => format!(
            "{pattern:?} matches nothing: names begin with that of a backend and `__`{}",
            suggestion(key, keys())
        ),
        _ => return Ok(()),
    };
    Err(ConfigError::of_rule(rule, text))
}

/// The part of a pattern before its first wildcard.
fn literal(pattern: &str) -> &str {
    pattern.split(['*', '?']).next().unwrap_or_default()
}

/// The backend with whose name begin all names that a pattern matches, if it is none of these.
fn unknown_backend<'a, 'b>(
    pattern: &'a str,
    mut known: impl Iterator<Item = &'b str>,
) -> Option<&'a str> {
    let literal = literal(pattern);
    let key = match literal.split_once("__") {
        Some((key, _)) => key,
        None if literal.len() < pattern.len() => return None,
        None => literal,
    };
    let is_uri = pattern.contains(':');
    (!is_uri && !known.any(|known| known == key)).then_some(key)
}

/// The rules of a list, with the lines of their patterns in a file with this text.
pub(super) fn rules(
    text: &str,
    table: &Arc<str>,
    list: &'static str,
    patterns: &Patterns,
) -> Result<Vec<Rule>, ConfigError> {
    let rules = patterns.0.iter().map(|pattern| {
        let line = line_at(text, pattern.span().start);
        let rule = Rule::new(pattern.as_ref().clone(), Arc::clone(table), list, line);
        match rule.pattern.trim().is_empty() {
            true => Err(ConfigError::new(
                &rule.field(),
                "must not have an empty pattern",
            )),
            false => Ok(rule),
        }
    });
    rules.collect()
}

/// Checks that no pattern is in both lists.
fn check_both(allow: &[Rule], deny: &[Rule]) -> Result<(), ConfigError> {
    let is_denied = |rule: &&Rule| deny.iter().any(|other| other.pattern == rule.pattern);
    match allow.iter().find(is_denied) {
        Some(rule) => {
            let text = format!("{:?} is in `deny` too", rule.pattern);
            Err(ConfigError::new(&rule.field(), text))
        }
        None => Ok(()),
    }
}

const NEEDS_ALLOW: &str = "needs `allow`, whose rules it limits";

fn check(name: &str, entry: &RoleEntry) -> Result<(), ConfigError> {
    let wrong = |field: &str, text: &str| Err(ConfigError::new(&["roles", name, field], text));
    if [NO_ROLE, DEFAULT].contains(&name) {
        return Err(ConfigError::new(&["roles", name], "is a reserved name"));
    }
    if entry.effects.as_ref().is_some_and(Vec::is_empty) {
        return wrong("effects", "must name at least one effect");
    }
    if entry.effects.is_some() && entry.allow.0.is_empty() {
        return wrong("effects", NEEDS_ALLOW);
    }
    if !entry.deny.0.is_empty() && entry.allow.0.is_empty() && entry.inherits.is_empty() {
        let text = "needs `allow` or `inherits`: a role that only denies allows nothing";
        return wrong("deny", text);
    }
    Ok(())
}

struct Builder<'a> {
    text: &'a str,
    roles: &'a BTreeMap<String, RoleEntry>,
}

impl Builder<'_> {
    /// The role `name`, with the rules of those that it inherits from. `path` has the roles through which it was reached.
    fn role(&self, name: &str, path: &mut Vec<String>) -> Result<Role, ConfigError> {
        let from = path.last().map_or(name, String::as_str).to_owned();
        let field = ["roles", from.as_str(), "inherits"];
        let Some(entry) = self.roles.get(name) else {
            return Err(ConfigError::new(&field, unknown(name, self.roles, false)));
        };
        if path.iter().any(|other| other == name) {
            return Err(ConfigError::new(
                &field,
                format!("{name} inherits from itself"),
            ));
        }
        let table: Arc<str> = format!("roles.{name}").into();
        let rules = |list, patterns| rules(self.text, &table, list, patterns);
        let views = entry.views.as_ref();
        let mut role = Role {
            allow: rules("allow", &entry.allow)?,
            deny: rules("deny", &entry.deny)?,
            confirm: rules("confirm", &entry.confirm)?,
            approve: rules("approve", &entry.approve)?,
            views: views.map(|views| rules("views", views)).transpose()?,
            limit: self.limit(name, entry)?,
            questions: entry.questions.unwrap_or(true),
            ..Role::named(name)
        };
        check_both(&role.allow, &role.deny)?;
        let arguments = self.arguments(name, entry)?;
        for rule in &mut role.allow {
            rule.effects.clone_from(&entry.effects);
            rule.arguments.clone_from(&arguments);
        }
        role.rights.extend(&entry.own);
        let own_limit = role.limit.clone();
        path.push(name.to_owned());
        for inherited in &entry.inherits {
            let base = self.role(inherited, path)?;
            role.allow.extend(base.allow);
            role.deny.extend(base.deny);
            role.confirm.extend(base.confirm);
            role.approve.extend(base.approve);
            role.rights.extend(base.rights);
            role.questions &= base.questions;
            // The own list counts, otherwise those that are inherited.
            if let (None, Some(views)) = (&entry.views, base.views) {
                role.views.get_or_insert_default().extend(views);
            }
            if let Some(limit) = base.limit {
                let known = role.limit.as_ref();
                if known.is_none_or(|known| limit.rate.is_stricter_than(known.rate)) {
                    role.limit = Some(limit);
                }
            }
        }
        path.pop();
        // The own word counts, otherwise the strictest that is inherited.
        if path.is_empty() {
            role.limit = own_limit.or(role.limit);
            role.questions = entry.questions.unwrap_or(role.questions);
        }
        Ok(role)
    }

    fn arguments(
        &self,
        name: &str,
        entry: &RoleEntry,
    ) -> Result<Option<Arc<ArgumentPatterns>>, ConfigError> {
        let Some(arguments) = &entry.arguments else {
            return Ok(None);
        };
        let patterns = argument_patterns(name, arguments.as_ref())?;
        if entry.allow.0.is_empty() {
            return Err(ConfigError::new(&["roles", name, "arguments"], NEEDS_ALLOW));
        }
        Ok(Some(Arc::new(ArgumentPatterns {
            patterns,
            table: format!("roles.{name}").into(),
            line: line_at(self.text, arguments.span().start),
        })))
    }

    fn limit(&self, name: &str, entry: &RoleEntry) -> Result<Option<Limit>, ConfigError> {
        let Some(limit) = &entry.limit else {
            return Ok(None);
        };
        let rate = Rate::parse(limit.as_ref());
        Ok(Some(Limit {
            rate: rate.map_err(|text| ConfigError::new(&["roles", name, "limit"], text))?,
            role: name.into(),
            line: line_at(self.text, limit.span().start),
        }))
    }
}

/// Reads the values that the arguments of a call may have.
fn argument_patterns(
    role: &str,
    arguments: &BTreeMap<String, toml::Value>,
) -> Result<BTreeMap<String, ArgumentPattern>, ConfigError> {
    let wrong = |text: &str| ConfigError::new(&["roles", role, "arguments"], text.to_owned());
    let pattern = |(name, value): (&String, &toml::Value)| {
        let pattern = match value {
            toml::Value::String(text) => Some(ArgumentPattern::texts([text.as_str()])),
            toml::Value::Boolean(flag) => Some(ArgumentPattern::Flag(*flag)),
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

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ViewEntry {
    backends: Option<Vec<String>>,
    allow: Option<Patterns>,
    deny: Patterns,
    own: Vec<OwnTool>,
    title: Option<String>,
    instructions: Option<String>,
    tools: BTreeMap<String, ViewToolEntry>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ViewToolEntry {
    name: String,
}

/// Longest title and instructions of a view, in characters: every conversation pays for them.
const MAX_TITLE_CHARS: usize = 100;
const MAX_INSTRUCTIONS_CHARS: usize = 4_000;

impl ViewEntry {
    /// Builds the view of a file with this text. `is_bare` has all backends, and whether their names are published as
    /// they are.
    pub(super) fn build(
        self,
        text: &str,
        name: &str,
        is_bare: &BTreeMap<String, bool>,
    ) -> Result<View, ConfigError> {
        let wrong = |field: &str, text: String| ConfigError::new(&["views", name, field], text);
        let is_legal = |letter: char| is_portable(letter) && !letter.is_ascii_uppercase();
        if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.chars().all(is_legal) {
            let text = "the name of a view has at most 64 characters of a-z, 0-9, - and _";
            return Err(ConfigError::new(&["views", name], text));
        }
        let mut backends = BTreeSet::new();
        for key in self.backends.iter().flatten() {
            let key = BackendKey::parse(key).map_err(|text| wrong("backends", text.to_owned()))?;
            backends.insert(key.to_string());
        }
        if self.backends.is_some() && backends.is_empty() {
            return Err(wrong(
                "backends",
                "must name a backend; without it the view has all".into(),
            ));
        }
        for (field, text, limit) in [
            ("title", &self.title, MAX_TITLE_CHARS),
            ("instructions", &self.instructions, MAX_INSTRUCTIONS_CHARS),
        ] {
            let length = text.as_ref().map_or(1, |text| text.trim().chars().count());
            if !(1..=limit).contains(&length) {
                return Err(wrong(field, format!("must have 1 to {limit} characters")));
            }
        }
        let table: Arc<str> = format!("views.{name}").into();
        let rules = |list, patterns| rules(text, &table, list, patterns);
        let allow = match &self.allow {
            Some(patterns) if patterns.0.is_empty() => {
                let text = "must have a pattern; without it the view allows all";
                return Err(wrong("allow", text.to_owned()));
            }
            Some(patterns) => rules("allow", patterns)?,
            None => {
                let line = line_of(text, &["views".to_owned(), name.to_owned()]);
                let (all, table) = ("*".to_owned(), Arc::clone(&table));
                vec![Rule::new(all, table, "allow", line.unwrap_or(1))]
            }
        };
        let rules = Role {
            deny: rules("deny", &self.deny)?,
            allow,
            ..Role::named(name)
        };
        check_both(&rules.allow, &rules.deny)?;
        Ok(View {
            tools: tools(name, self.tools, &rules)?,
            name: name.into(),
            title: self.title.map(|title| title.trim().to_owned()),
            instructions: self.instructions.map(|text| text.trim().to_owned()),
            others: backends
                .iter()
                .any(|key| is_bare.get(key) == Some(&true))
                .then(|| {
                    let others = is_bare.keys().filter(|key| !backends.contains(*key));
                    others.cloned().collect()
                }),
            backends: self.backends.map(|_| backends),
            rules,
            own: self.own,
        })
    }
}

/// Checks the tables of tools of the view `view`.
fn tools(
    view: &str,
    entries: BTreeMap<String, ViewToolEntry>,
    rules: &Role,
) -> Result<Vec<ViewTool>, ConfigError> {
    let mut names = BTreeMap::new();
    let mut tools = Vec::new();
    for (original, entry) in entries {
        let at = ["views", view, "tools", original.as_str()];
        let wrong = |text: String| Err(ConfigError::new(&at, text));
        let wrong_name = |text: String| Err(ConfigError::new(&[&at[..], &["name"]].concat(), text));
        if OWN_TOOLS.contains(&original.as_str()) {
            return wrong("is a tool of the gateway, which keeps its name".to_owned());
        }
        let item = mcp_core::server::AccessItem::Tool {
            name: &original,
            effect: None,
        };
        let decision = rules.decide(item, None);
        if !decision.is_allowed() {
            return wrong(format!("is not in the view: {decision}"));
        }
        let name = entry.name;
        if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.chars().all(is_portable) {
            return wrong_name(format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$"));
        }
        if OWN_TOOLS.contains(&name.as_str()) {
            return wrong_name(format!("{name:?} is the name of a tool of the gateway"));
        }
        if let Some(other) = names.insert(name.clone(), original.clone()) {
            return wrong_name(format!("{name:?} is the name of {other} here, too"));
        }
        if name != original {
            tools.push(ViewTool { original, name });
        }
    }
    Ok(tools)
}

/// Checks that the backends of a view exist, that its rules and tools can match something there, and that no new name may
/// be that of another tool.
fn check_view(view: &View, config: &Config) -> Result<(), ConfigError> {
    let all = || config.backends.keys();
    for key in view.backends.iter().flatten() {
        if !all().any(|known| known.as_str() == key) {
            let names = all().map(BackendKey::as_str);
            let text = format!("there is no backend {key}{}", suggestion(key, names));
            return Err(ConfigError::new(&["views", &view.name, "backends"], text));
        }
    }
    let own = || {
        config
            .backends
            .iter()
            .filter(|(key, _)| view.has_backend(key.as_str()))
    };
    let has_bare = own().any(|(_, backend)| backend.bare);
    let keys = || own().map(|(key, _)| key.as_str());
    // The reason why a name or pattern matches nothing in the view.
    let unknown = |pattern: &str| {
        let key = unknown_backend(pattern, keys()).filter(|_| !has_bare)?;
        Some(match OWN_TOOLS.contains(&pattern) {
            true => "names a tool of the gateway, which `own` allows".to_owned(),
            false => format!(
                "{pattern:?} matches nothing: names begin with that of a backend of the view and `__`{}",
                suggestion(key, keys())
            ),
        })
    };
    for rule in view.rules.allow.iter().chain(&view.rules.deny) {
        if let Some(text) = unknown(&rule.pattern) {
            return Err(ConfigError::of_rule(rule, text));
        }
    }
    for tool in &view.tools {
        let at = ["views", &*view.name, "tools", tool.original.as_str()];
        if let Some(text) = unknown(&tool.original) {
            return Err(ConfigError::new(&at, text));
        }
        let renamed = &tool.name;
        if let Some(key) = all().find(|key| key.is_prefix_of(renamed)) {
            let text = format!("{renamed:?} may be the name of another tool of the backend {key}");
            return Err(ConfigError::new(&[&at[..], &["name"]].concat(), text));
        }
    }
    Ok(())
}
