//! Parses the tables `[views.NAME]`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use gateway_access::{EffectName, OWN_TOOLS, OwnTool, Role, Rule, View, ViewTool, WITHOUT_VIEW};
use mcp_core::suggestion::suggestion;
use serde::Deserialize;
use toml::Spanned;

use super::error::{Problem, line_at, line_of};
use super::{BackendKey, Config, ToolOverride};
use crate::names::{MAX_NAME_LEN, is_portable};

/// One view, with its texts.
#[derive(PartialEq)]
pub(crate) struct ViewConfig {
    pub(crate) view: Arc<View>,
    pub(crate) title: Option<String>,
    /// For the model, in place of those of the gateway.
    pub(crate) instructions: Option<String>,
    /// Texts and effects of its tools, by their published names.
    pub(crate) texts: BTreeMap<String, ToolOverride>,
}

impl Deref for ViewConfig {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewEntry {
    backends: Option<Vec<String>>,
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    #[serde(default)]
    own: Vec<OwnTool>,
    title: Option<String>,
    instructions: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, ViewToolEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewToolEntry {
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    effect: Option<EffectName>,
}

/// Longest title and instructions of a view, in characters: every conversation pays for them.
const MAX_TITLE_CHARS: usize = 100;
const MAX_INSTRUCTIONS_CHARS: usize = 4_000;

/// Builds the views of a file with this text, in the order of their names. `is_bare` has all backends, and whether
/// their names are published as they are.
pub(super) fn build(
    text: &str,
    views: BTreeMap<String, ViewEntry>,
    is_bare: &BTreeMap<String, bool>,
) -> Result<Vec<Arc<ViewConfig>>, Problem> {
    let views = views.into_iter();
    views
        .map(|(name, entry)| entry.build(text, &name, is_bare).map(Arc::new))
        .collect()
}

impl ViewEntry {
    fn build(
        self,
        text: &str,
        name: &str,
        is_bare: &BTreeMap<String, bool>,
    ) -> Result<ViewConfig, Problem> {
        let wrong = |field: &str, text: String| Problem::new(&["views", name, field], text);
        let is_legal = |letter: char| is_portable(letter) && !letter.is_ascii_uppercase();
        if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.chars().all(is_legal) {
            let text = "the name of a view has at most 64 characters of a-z, 0-9, - and _";
            return Err(Problem::new(&["views", name], text));
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
        let rules =
            |list: &'static str, patterns: &[Spanned<String>]| -> Result<Vec<Rule>, Problem> {
                let rules = patterns.iter().map(|pattern| {
                    let (line, pattern) = (line_at(text, pattern.span().start), pattern.as_ref());
                    if pattern.trim().is_empty() {
                        return Err(wrong(list, "must not have an empty pattern".to_owned()));
                    }
                    Ok(Rule::new(pattern.clone(), Arc::clone(&table), list, line))
                });
                rules.collect()
            };
        let allow = match &self.allow {
            Some(patterns) if patterns.is_empty() => {
                let text = "must have a pattern; without it the view allows all";
                return Err(wrong("allow", text.to_owned()));
            }
            Some(patterns) => rules("allow", patterns)?,
            None => {
                let line = line_of(text, &["views".to_owned(), name.to_owned()]);
                vec![Rule::new(
                    "*".to_owned(),
                    Arc::clone(&table),
                    "allow",
                    line.unwrap_or(1),
                )]
            }
        };
        let rules = Role {
            name: name.to_owned(),
            deny: rules("deny", &self.deny)?,
            allow,
            ..Role::default()
        };
        let contradicts = |rule: &&Rule| {
            let mut deny = rules.deny.iter();
            deny.any(|other| other.pattern == rule.pattern)
        };
        if let Some(rule) = rules.allow.iter().find(contradicts) {
            return Err(wrong(
                "allow",
                format!("{:?} is in `deny` too", rule.pattern),
            ));
        }
        let (tools, texts) = tools(name, self.tools, &rules)?;
        let view = View {
            tools,
            name: name.into(),
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
        };
        Ok(ViewConfig {
            view: Arc::new(view),
            title: self.title.map(|title| title.trim().to_owned()),
            instructions: self.instructions.map(|text| text.trim().to_owned()),
            texts,
        })
    }
}

/// The tools and texts of the view `view`.
type Tools = (Vec<ViewTool>, BTreeMap<String, ToolOverride>);

/// Checks the tables of tools of the view `view`.
fn tools(
    view: &str,
    entries: BTreeMap<String, ViewToolEntry>,
    rules: &Role,
) -> Result<Tools, Problem> {
    let mut names = BTreeMap::new();
    let (mut tools, mut all_texts) = (Vec::new(), BTreeMap::new());
    for (original, entry) in entries {
        let at = ["views", view, "tools", original.as_str()];
        let wrong = |text: String| Err(Problem::new(&at, text));
        let wrong_name = |text: String| Err(Problem::new(&[&at[..], &["name"]].concat(), text));
        if OWN_TOOLS.contains(&original.as_str()) {
            return wrong("is a tool of the gateway, which keeps its name and texts".to_owned());
        }
        let item = mcp_core::server::AccessItem::Tool {
            name: &original,
            effect: None,
        };
        let decision = rules.decide(item);
        if !decision.is_allowed() {
            return wrong(format!("is not in the view: {decision}"));
        }
        if let Some(name) = &entry.name {
            if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.chars().all(is_portable) {
                return wrong_name(format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$"));
            }
            if OWN_TOOLS.contains(&name.as_str()) {
                return wrong_name(format!("{name:?} is the name of a tool of the gateway"));
            }
        }
        let name = entry.name.filter(|name| *name != original);
        let texts = ToolOverride::new(entry.title, entry.description, entry.effect);
        if name.is_none() && texts.is_empty() {
            return wrong("needs `name`, `title`, `description` or `effect`".to_owned());
        }
        let shown = name.as_ref().unwrap_or(&original).clone();
        if let Some(other) = names.insert(shown.clone(), original.clone()) {
            return wrong_name(format!("{shown:?} is the name of {other} here, too"));
        }
        all_texts.insert(original.clone(), texts);
        tools.push(ViewTool { original, name });
    }
    Ok((tools, all_texts))
}

/// Checks that the backends of each view exist, that its rules and tools can match something there, and that no new
/// name may be that of another tool.
pub(super) fn check(config: &Config) -> Result<(), (Option<usize>, Problem)> {
    for view in &config.views {
        check_view(view, config)?;
    }
    let roles = config.roles.iter().flat_map(|roles| &roles.roles);
    for rule in roles.flat_map(|role| role.views.iter().flatten()) {
        let names = || {
            config
                .views
                .iter()
                .map(|view| &*view.name)
                .chain([WITHOUT_VIEW])
        };
        if !names().any(|name| rule.matches(name)) {
            let text = format!(
                "{:?} matches no view{}",
                rule.pattern,
                suggestion(&rule.pattern, names())
            );
            return Err((Some(rule.line), Problem::new(&rule.field(), text)));
        }
    }
    Ok(())
}

fn check_view(view: &View, config: &Config) -> Result<(), (Option<usize>, Problem)> {
    let all = || config.backends.keys();
    for key in view.backends.iter().flatten() {
        if !all().any(|known| known.as_str() == key) {
            let names = all().map(BackendKey::as_str);
            let text = format!("there is no backend {key}{}", suggestion(key, names));
            return Err((None, Problem::new(&["views", &view.name, "backends"], text)));
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
        let literal = pattern.split(['*', '?']).next().unwrap_or_default();
        let key = match literal.split_once("__") {
            Some((key, _)) => key,
            None if literal.len() < pattern.len() => return None,
            None => literal,
        };
        let is_known = pattern.contains(':') || has_bare || keys().any(|known| known == key);
        (!is_known).then(|| {
            match OWN_TOOLS.contains(&literal) {
                true => "names a tool of the gateway, which `own` allows".to_owned(),
                false => format!(
                    "{pattern:?} matches nothing: names begin with that of a backend of the view and `__`{}",
                    suggestion(key, keys())
                ),
            }
        })
    };
    for rule in view.rules.allow.iter().chain(&view.rules.deny) {
        if let Some(text) = unknown(&rule.pattern) {
            return Err((Some(rule.line), Problem::new(&rule.field(), text)));
        }
    }
    for tool in &view.tools {
        let at = ["views", &*view.name, "tools", tool.original.as_str()];
        if let Some(text) = unknown(&tool.original) {
            return Err((None, Problem::new(&at, text)));
        }
        let renamed = tool.name.as_deref().unwrap_or_default();
        if let Some(key) = all().find(|key| key.is_prefix_of(renamed)) {
            let text = format!("{renamed:?} may be the name of another tool of the backend {key}");
            let at = [&at[..], &["name"]].concat();
            return Err((None, Problem::new(&at, text)));
        }
    }
    Ok(())
}
