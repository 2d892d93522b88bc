//! Loads the configuration and watches its file for changes.

use std::io;
use std::path::{Path, PathBuf};

use mcp_serve::FollowedFiles;

use super::error::{Problem, line_of};
use super::expand::Environment;
use super::lost::{self, FileText};
use super::{Config, ConfigError, cli_backend, file, mcp_json, problems, roles, views};

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
        };
        let config = source.config(source.text.reported())?;
        source.applied = source.text.reported().clone().unwrap_or_default();
        Ok((config, source))
    }

    /// Every problem of the file in TOML; of a file of another host none.
    pub(super) fn problems(file: &Path, base: &Config) -> Vec<ConfigError> {
        let name = file.display().to_string();
        let Ok(text) = read(file) else {
            return Vec::new();
        };
        let text = without_mark(&text);
        if is_json(text, &name) {
            return Vec::new();
        }
        let variable = |name: &str| std::env::var(name).ok();
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let environment = Environment {
            variable: &variable,
            folder: absolute.parent().unwrap_or(Path::new("")),
        };
        problems::find(text, &name, &environment, base)
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

    /// Returns the new configuration once the content is stable.
    #[cfg(test)]
    pub(super) fn observe(
        &mut self,
        found: Result<String, String>,
    ) -> Option<Result<Config, ConfigError>> {
        let text = self.text.observe(found)?;
        Some(self.change(&text))
    }

    /// Returns the configuration of a changed file, unless a restriction is missing there.
    fn change(&mut self, text: &Result<String, String>) -> Result<Config, ConfigError> {
        let config = self.config(text)?;
        let name = self.file().unwrap_or_default();
        let text = text.as_deref().unwrap_or_default();
        let kind = |text| match is_json(text, &name) {
            true => FileText::Json,
            false => FileText::Toml(text),
        };
        let [before, after] = [self.applied.as_str(), text].map(without_mark);
        lost::check(kind(before), kind(after)).map_err(|problem| {
            let line = line_of(after, &problem.field);
            problem.at(&name, line)
        })?;
        self.applied = text.to_owned();
        Ok(config)
    }

    fn config(&self, text: &Result<String, String>) -> Result<Config, ConfigError> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut config = self.base.clone();
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let text = text
                .as_ref()
                .map_err(|reason| Problem::new(&[], reason).at(&name, None))?;
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let environment = Environment {
                variable: &variable,
                folder: absolute.parent().unwrap_or(Path::new("")),
            };
            config = parse(text, &name, &environment, config)?;
            let is_blank = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
            if without_mark(text).lines().all(is_blank) {
                let text = "is empty. Name the backends in it, or say that there are none: `backends = {}`; without \
                            a file of backends start the gateway without --config";
                return Err(Problem::new(&[], text).at(&name, None));
            }
        }
        let environment = Environment {
            variable: &variable,
            folder: Path::new(""),
        };
        for text in &self.cli_backends {
            let wrong = |problem: Problem| problem.at("--backend", None);
            let (key, mut backend) = cli_backend::parse(text, &environment).map_err(wrong)?;
            backend.pins = config.pins;
            if config.backends.insert(key.clone(), backend).is_some() {
                let text = "is the name of two backends";
                return Err(wrong(Problem::new(&[key.as_str()], text)));
            }
        }
        if self.file.is_none() && self.cli_backends.is_empty() {
            config.backends.extend(cli_backend::local());
        }
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            roles::check_backends(&config)
                .map_err(|(line, problem)| problem.at(&name, Some(line)))?;
            views::check(&config).map_err(|(line, problem)| {
                let text = text.as_deref().unwrap_or_default();
                let line = line.or_else(|| line_of(text, &problem.field));
                problem.at(&name, line)
            })?;
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

/// The text without the mark of UTF-8 that some editors put in front.
fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// True for the file of another host. TOML cannot start with a brace.
fn is_json(text: &str, name: &str) -> bool {
    text.trim_start().starts_with('{') || name.ends_with(".json")
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot be read: {}", error.kind());
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE_BYTES {
        return Err("is larger than 4 MiB".to_owned());
    }
    std::fs::read_to_string(path).map_err(failed)
}
