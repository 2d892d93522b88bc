//! Loads the configuration and watches its file for changes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway_store::events::StoreLocation;
use mcp_serve::FollowedFiles;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::{Environment, line_at};
use super::{Config, ConfigError, DisabledReason, file, lost, mcp_json, roles};

/// A larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The source of the configuration: the command line and a file. Reports each change of the file once.
#[derive(Clone)]
pub(crate) struct ConfigSource {
    file: Option<PathBuf>,
    cli_backends: Vec<String>,
    base: Config,
    /// The store of events that the command line has set, which wins over the file.
    events: Option<StoreLocation>,
    /// The text of the file.
    text: FollowedFiles<String>,
    /// The text of the configuration in use.
    applied: String,
    /// The text at the start.
    started: String,
}

/// The tables of which some keys are read at the start only, and the keys that are followed.
const OF_START: [(&str, &[&str]); 2] = [("server", &[]), ("events", &["record"])];

impl ConfigSource {
    /// Reads the configuration. `base` has the values of fields that the file does not set.
    ///
    /// # Errors
    /// The error in the file or in a backend of the command line.
    pub(crate) fn open(
        file: Option<PathBuf>,
        cli_backends: Vec<String>,
        base: Config,
        events: Option<StoreLocation>,
    ) -> Result<(Config, Self), ConfigError> {
        let text = file.as_deref().map_or(Ok(String::new()), read);
        let path = file.clone().unwrap_or_default();
        let mut source = Self {
            file,
            cli_backends,
            base,
            events,
            text: FollowedFiles::new(text, move || read(&path)),
            applied: String::new(),
            started: String::new(),
        };
        let config = source.config(source.text.reported())?;
        source.applied = source.text.reported().clone().unwrap_or_default();
        source.started.clone_from(&source.applied);
        Ok((config, source))
    }

    /// The path of the file.
    pub(crate) fn file(&self) -> Option<String> {
        Some(self.file.as_ref()?.display().to_string())
    }

    /// The file, or the option of the command line, with the backends; with the line that has the missing variable.
    pub(crate) fn place_of(&self, reason: &DisabledReason) -> String {
        let Some(file) = self.file() else {
            return "--backend".to_owned();
        };
        let DisabledReason::MissingVariable(name) = reason else {
            return file;
        };
        let references = [format!("${{{name}}}"), format!("${{env:{name}}}")];
        let has_it = |line: &str| {
            let is_comment = line.trim_start().starts_with('#');
            !is_comment && references.iter().any(|text| line.contains(text))
        };
        match self.applied.lines().position(has_it) {
            Some(line) => format!("{file}:{}", line + 1),
            None => file,
        }
    }

    /// Waits until the file has changed and returns the new configuration, unless it has the fault that `find_fault` finds.
    /// Never completes without a file. Cancel-safe.
    ///
    /// # Errors
    /// The error in the new configuration; the old one stays valid.
    pub(crate) async fn changed(
        &mut self,
        find_fault: impl Fn(&Config) -> Option<ConfigError>,
    ) -> Result<Config, ConfigError> {
        if self.file.is_none() {
            return std::future::pending().await;
        }
        let text = self.text.changed().await;
        let config = self.config(&text)?;
        let name = self.file().unwrap_or_default();
        let text = text.unwrap_or_default();
        let kind = |text| (!is_json(text, &name)).then_some(text);
        let [before, after] = [self.applied.as_str(), &text].map(without_mark);
        // A restriction may be missing there.
        let checked = lost::check(kind(before), kind(after));
        let checked = checked.and_then(|()| find_fault(&config).map_or(Ok(()), Err));
        checked.map_err(|error| error.at(&name, after))?;
        self.applied = text;
        Ok(config)
    }

    /// The settings of the configuration in use that differ from those of the start, and that only a restart applies.
    pub(crate) fn needs_restart(&self) -> Vec<String> {
        let table = |text: &str| {
            without_mark(text)
                .parse::<toml::Table>()
                .unwrap_or_default()
        };
        let (before, after) = (table(&self.started), table(&self.applied));
        let mut found = Vec::new();
        for (name, followed) in OF_START {
            let [before, after] = [&before, &after].map(|all| all.get(name)?.as_table());
            let keys = [before, after]
                .into_iter()
                .flatten()
                .flat_map(toml::Table::keys);
            let keys: BTreeSet<&String> = keys.collect();
            let of =
                |all: Option<&toml::Table>, key: &str| all.and_then(|all| all.get(key).cloned());
            let changed = keys.into_iter().filter(|key| {
                !followed.contains(&key.as_str()) && of(before, key) != of(after, key)
            });
            found.extend(changed.map(|key| format!("{name}.{key}")));
        }
        found
    }

    fn config(&self, text: &Result<String, String>) -> Result<Config, ConfigError> {
        let mut config = self.base.clone();
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let text = text
                .as_ref()
                .map_err(|reason| ConfigError::new(&[], reason).at(&name, ""))?;
            let folder = folder_of(path);
            config = parse(text, &name, &Environment::of_process(&folder), config)?;
            let is_blank = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
            if without_mark(text).lines().all(is_blank) {
                let text = "is empty. Name the backends in it, or say that there are none: `backends = {}`; without \
                            a file of backends start the gateway without --config";
                return Err(ConfigError::new(&[], text).at(&name, ""));
            }
        }
        let environment = Environment::of_process(Path::new(""));
        for text in &self.cli_backends {
            let wrong = |error: ConfigError| error.at("--backend", "");
            let (key, mut backend) = mcp_json::parse_option(text, &environment).map_err(wrong)?;
            backend.pins = config.pins;
            if config.backends.insert(key.clone(), backend).is_some() {
                let text = "is the name of two backends";
                return Err(wrong(ConfigError::new(&[key.as_str()], text)));
            }
        }
        if self.file.is_none() && self.cli_backends.is_empty() {
            config.backends.extend(mcp_json::local(&environment));
        }
        // Without a file there is nothing to be wrong.
        let (name, text) = (self.file(), text.as_deref().unwrap_or_default());
        let checked = roles::validate(&config);
        checked.map_err(|error| error.at(&name.unwrap_or_default(), text))?;
        if let Some(events) = &self.events {
            config.events = events.clone();
        }
        Ok(config)
    }
}

/// Parses the gateway's own TOML, or the JSON of another host.
pub(super) fn parse(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let text = without_mark(text);
    if is_json(text, name) {
        mcp_json::parse(text, name, environment, base)
    } else {
        file::parse(text, name, environment, base)
    }
}

/// The folder of the relative paths in a file.
fn folder_of(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    absolute.parent().unwrap_or(Path::new("")).to_owned()
}

/// The text without the mark of UTF-8 that some editors put in front.
fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// True for the file of another host. TOML cannot start with a brace.
fn is_json(text: &str, name: &str) -> bool {
    text.trim_start().starts_with('{') || name.ends_with(".json")
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "cannot be read: there is no such file".to_owned(),
        kind => format!("cannot be read: {kind}"),
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE_BYTES {
        return Err("is larger than 4 MiB".to_owned());
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// More are not shown.
const MAX_PROBLEMS: usize = 100;

/// Tables that name each other: the first problem in them may cause the others.
const LINKED: [&str; 2] = ["roles", "principals"];

/// Finds every problem of a TOML file: a field with a problem is left out, and the rest is read again.
pub(super) fn find(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: &Config,
) -> Vec<ConfigError> {
    let (mut table, faults) = DeTable::parse_recoverable(text);
    if !faults.is_empty() {
        let errors = faults.iter().map(|fault| ConfigError {
            line: fault.span().map(|span| line_at(text, span.start)),
            ..ConfigError::new(&[], fault.message()).at(name, "")
        });
        return errors.collect();
    }
    let mut found: Vec<ConfigError> = Vec::new();
    for _ in 0..MAX_PROBLEMS {
        let base = base.clone();
        let read = file::parse_table(table.clone(), text, name, environment, base);
        let Err(error) = read else { break };
        let first = error.field.first().map(String::as_str);
        let is_removed = match first.is_some_and(|table| LINKED.contains(&table)) {
            true => LINKED
                .map(|linked| table.get_mut().remove(linked).is_some())
                .contains(&true),
            false => remove(table.get_mut(), &error.field),
        };
        // A backend lacks a field that was left out, such as one whose name is wrong.
        let mut fields = found.iter().map(|found| &found.field);
        if !fields.any(|field| *field != error.field && field.starts_with(&error.field)) {
            found.push(error);
        }
        if !is_removed {
            break;
        }
    }
    found
}

/// Removes the innermost key on the way to a field that exists.
fn remove(table: &mut DeTable<'_>, field: &[String]) -> bool {
    let Some((part, rest)) = field.split_first() else {
        return false;
    };
    // An item of a list stands with its list.
    let key = part.split('[').next().unwrap_or_default();
    let inner = table.get_mut(key).map(Spanned::get_mut);
    if let Some(DeValue::Table(inner)) = inner
        && remove(inner, rest)
    {
        return true;
    }
    table.remove(key).is_some()
}

/// Options of `mcp-gateway`.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Gateway")]
// The default id is the name of the struct, which the options of `mcp-serve` have as well.
#[group(id = "gateway")]
pub(crate) struct Options {
    /// File with the backends: TOML, or the mcp.json of another host.
    ///
    /// Changes are applied while the gateway runs.
    #[arg(long, env = "MCP_GATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A backend: `NAME=COMMAND` starts it, `NAME=URL` connects to it; can be repeated.
    ///
    /// Without this and without a file: the n8n, OpenHands and Docker servers on this machine.
    #[arg(
        long,
        env = "MCP_GATEWAY_BACKENDS",
        value_name = "NAME=COMMAND|URL",
        value_delimiter = '\n'
    )]
    backend: Vec<String>,
    /// Store of events: a file, `memory`, or the URL of a PostgreSQL database, which several gateways can share; they need
    /// the same --session-key, of 32 characters or more [default: a file in the user's state folder].
    #[arg(
        long,
        env = "MCP_GATEWAY_EVENTS",
        value_name = "STORE",
        hide_env_values = true
    )]
    #[arg(hide_short_help = true)]
    events: Option<String>,
    /// Milliseconds between two probes of a backend over HTTP, for tests.
    #[arg(long, hide = true, value_name = "MILLISECONDS")]
    probe_interval: Option<u64>,
}

impl Options {
    /// Every problem of the options and of the file; in a file of another host only the first.
    pub(crate) fn problems(&self) -> Vec<ConfigError> {
        let Err(first) = self.clone().load() else {
            return Vec::new();
        };
        let mut all = Vec::new();
        if let Some(file) = &self.config
            && let Ok(text) = read(file)
        {
            let (text, name) = (without_mark(&text), file.display().to_string());
            if !is_json(text, &name) {
                let folder = folder_of(file);
                let environment = Environment::of_process(&folder);
                all = find(text, &name, &environment, &Config::default());
            }
        }
        if !all.contains(&first) {
            all.insert(0, first);
        }
        all
    }

    /// Reads the configuration. The source reports its later changes.
    ///
    /// # Errors
    /// The error in the options or in the file.
    pub(crate) fn load(self) -> Result<(Config, ConfigSource), ConfigError> {
        let blank = |text: &String| text.trim().is_empty();
        let file = self.config.filter(|path| !path.as_os_str().is_empty());
        let cli_backends = self
            .backend
            .into_iter()
            .filter(|text| !blank(text))
            .collect();
        let mut base = Config {
            events: default_store(),
            ..Config::default()
        };
        if let Some(interval) = self.probe_interval {
            base.probe_interval = Duration::from_millis(interval);
        }
        let events = self.events.filter(|text| !blank(text));
        let events = events.map(|text| StoreLocation::parse(&text, Path::new("")));
        let wrong = |problem| ConfigError::new(&[], problem).at("--events", "");
        ConfigSource::open(file, cli_backends, base, events.transpose().map_err(wrong)?)
    }
}

/// `mcp-gateway/events.db` in the user's folder for state; in memory if there is none.
fn default_store() -> StoreLocation {
    mcp_serve::state_folder().map_or(StoreLocation::Memory, |state| {
        StoreLocation::File(state.join("mcp-gateway/events.db"))
    })
}
