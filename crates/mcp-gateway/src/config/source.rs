//! Loads the configuration and watches its file for changes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway_store::events::StoreLocation;
use mcp_serve::FollowedFiles;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::{Environment, Problem, line_at};
use super::{Config, ConfigError, file, lost, mcp_json, roles};

/// A larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The source of the configuration: the command line and a file. Reports each change of the file once.
#[derive(Clone)]
pub(crate) struct ConfigSource {
    file: Option<PathBuf>,
    cli_backends: Vec<String>,
    base: Config,
    /// The command line has set the store of events, which wins over the file.
    events: bool,
    /// The text of the file.
    text: FollowedFiles<String>,
    /// The text of the configuration in use.
    applied: String,
    /// That of the one before.
    replaced: String,
}

impl ConfigSource {
    /// Reads the configuration. `base` has the values of fields that the file does not set.
    ///
    /// # Errors
    /// The error in the file or in a backend of the command line.
    pub(crate) fn open(
        file: Option<PathBuf>,
        cli_backends: Vec<String>,
        base: Config,
        events: bool,
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
            replaced: String::new(),
        };
        let config = source.config(source.text.reported())?;
        source.applied = source.text.reported().clone().unwrap_or_default();
        Ok((config, source))
    }

    /// The path of the file.
    pub(crate) fn file(&self) -> Option<String> {
        Some(self.file.as_ref()?.display().to_string())
    }

    /// Waits until the file has changed and returns the new configuration. Never completes without a
    /// file. Cancel-safe.
    ///
    /// # Errors
    /// The error in the new configuration; the old one stays valid.
    pub(crate) async fn changed(&mut self) -> Result<Config, ConfigError> {
        if self.file.is_none() {
            return std::future::pending().await;
        }
        let text = self.text.changed().await;
        self.change(&text)
    }

    /// Returns the configuration of a changed file, unless a restriction is missing there.
    fn change(&mut self, text: &Result<String, String>) -> Result<Config, ConfigError> {
        let config = self.config(text)?;
        let name = self.file().unwrap_or_default();
        let text = text.as_deref().unwrap_or_default();
        let kind = |text| (!is_json(text, &name)).then_some(text);
        let [before, after] = [self.applied.as_str(), text].map(without_mark);
        let checked = lost::check(kind(before), kind(after));
        checked.map_err(|problem| problem.at(&name, after))?;
        self.replaced = std::mem::replace(&mut self.applied, text.to_owned());
        Ok(config)
    }

    /// Notes that the last change is not applied, because of this line.
    pub(crate) fn refuse(&mut self, line: Option<usize>, field: &str, reason: &str) -> ConfigError {
        self.applied = std::mem::take(&mut self.replaced);
        ConfigError {
            origin: self.file().unwrap_or_default(),
            line,
            field: field.to_owned(),
            problem: reason.to_owned(),
        }
    }

    fn config(&self, text: &Result<String, String>) -> Result<Config, ConfigError> {
        let mut config = self.base.clone();
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let text = text
                .as_ref()
                .map_err(|reason| Problem::new(&[], reason).at(&name, ""))?;
            let folder = folder_of(path);
            config = parse(text, &name, &Environment::of_process(&folder), config)?;
            let is_blank = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
            if without_mark(text).lines().all(is_blank) {
                let text = "is empty. Name the backends in it, or say that there are none: `backends = {}`; without \
                            a file of backends start the gateway without --config";
                return Err(Problem::new(&[], text).at(&name, ""));
            }
        }
        let environment = Environment::of_process(Path::new(""));
        for text in &self.cli_backends {
            let wrong = |problem: Problem| problem.at("--backend", "");
            let (key, mut backend) = mcp_json::parse_option(text, &environment).map_err(wrong)?;
            backend.pins = config.pins;
            if config.backends.insert(key.clone(), backend).is_some() {
                let text = "is the name of two backends";
                return Err(wrong(Problem::new(&[key.as_str()], text)));
            }
        }
        if self.file.is_none() && self.cli_backends.is_empty() {
            config.backends.extend(mcp_json::local(&environment));
        }
        if let Some(path) = &self.file {
            let (name, text) = (path.display(), text.as_deref().unwrap_or_default());
            let checked = roles::validate(&config);
            checked.map_err(|problem| problem.at(&name.to_string(), text))?;
        }
        if self.events {
            config.events = self.base.events.clone();
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
            origin: name.to_owned(),
            line: fault.span().map(|span| line_at(text, span.start)),
            field: String::new(),
            problem: fault.message().to_owned(),
        });
        return errors.collect();
    }
    let mut found: Vec<ConfigError> = Vec::new();
    for _ in 0..MAX_PROBLEMS {
        let base = base.clone();
        let read = file::parse_table(table.clone(), text, name, environment, base);
        let Err(error) = read else { break };
        let is_linked = LINKED.iter().any(|table| starts_with(&error.field, table));
        let is_removed = match is_linked {
            true => LINKED
                .map(|part| remove(table.get_mut(), part))
                .contains(&true),
            false => remove(table.get_mut(), &error.field),
        };
        // A backend lacks a field that was left out, such as one whose name is wrong.
        let mut fields = found.iter().map(|found| &found.field);
        if !fields.any(|field| field != &error.field && starts_with(field, &error.field)) {
            found.push(error);
        }
        if !is_removed {
            break;
        }
    }
    found
}

/// Removes the innermost key on the way to a field that exists.
fn remove(table: &mut DeTable<'_>, field: &str) -> bool {
    let keys = table.keys().map(|key| key.get_ref().to_string());
    // The longest: a key may have a dot.
    let key = keys
        .filter(|key| starts_with(field, key))
        .max_by_key(String::len);
    let Some(key) = key else { return false };
    let rest = field[key.len()..].trim_start_matches('.');
    let inner = table.get_mut(key.as_str()).map(Spanned::get_mut);
    if let Some(DeValue::Table(inner)) = inner
        && remove(inner, rest)
    {
        return true;
    }
    table.remove(key.as_str()).is_some()
}

/// True if the first part of the field is this key.
fn starts_with(field: &str, key: &str) -> bool {
    let rest = field.strip_prefix(key);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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
        if let Some(text) = &events {
            base.events =
                StoreLocation::parse(text, Path::new("")).map_err(|problem| ConfigError {
                    origin: "--events".to_owned(),
                    line: None,
                    field: String::new(),
                    problem: problem.to_owned(),
                })?;
        }
        ConfigSource::open(file, cli_backends, base, events.is_some())
    }
}

/// `mcp-gateway/events.db` in the user's folder for state; in memory if there is none.
fn default_store() -> StoreLocation {
    mcp_serve::state_folder().map_or(StoreLocation::Memory, |state| {
        StoreLocation::File(state.join("mcp-gateway/events.db"))
    })
}
