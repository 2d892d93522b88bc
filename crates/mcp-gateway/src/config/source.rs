//! Where the configuration comes from, and what becomes of it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Problem;
use super::expand::Place;
use super::{Config, ConfigError, cli_backend, file, mcp_json};

/// How often the file is looked at. Events of the file system would be faster, and get lost on
/// network drives, in containers and with editors that replace files.
const LOOK: Duration = Duration::from_secs(1);

/// How long a change must last before it counts. Not everybody replaces a file at once: one that is
/// written in place is empty at first, and its first half may be a configuration too, with fewer
/// backends.
const SETTLE: Duration = Duration::from_millis(500);

/// A larger file was named by mistake.
const MAX_BYTES: u64 = 4 << 20;

/// Where the configuration comes from. Tells of each change of the file once.
#[derive(Clone)]
pub(crate) struct Source {
    file: Option<PathBuf>,
    quick: Vec<String>,
    base: Config,
    /// True where the command line says where events are kept, which wins over the file.
    events: bool,
    /// What was there at the last look of which was told.
    told: Result<String, Gone>,
    /// What was there at the last look and is new; told when it still is there at the next one.
    new: Option<Result<String, Gone>>,
}

/// Why there is no text.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Gone(String);

impl Source {
    /// The configuration as it is now, and what tells of its changes. `quick` are the backends of the
    /// command line, `base` is what holds unless a file says otherwise.
    pub(super) fn open(
        file: Option<PathBuf>,
        quick: Vec<String>,
        base: Config,
        events: bool,
    ) -> Result<(Config, Self), ConfigError> {
        let told = file.as_deref().map_or(Ok(String::new()), read);
        let source = Self {
            file,
            quick,
            base,
            events,
            told,
            new: None,
        };
        let config = source.config(&source.told)?;
        Ok((config, source))
    }

    /// Completes when the file has changed: with the new configuration, or with the reason why it
    /// cannot be used and the old one has to stay. Never without a file. May be dropped and called
    /// again.
    ///
    /// # Errors
    /// What is wrong with the new configuration.
    pub(crate) async fn changed(&mut self) -> Result<Config, ConfigError> {
        let Some(file) = self.file.clone() else {
            return std::future::pending().await;
        };
        loop {
            let pause = self.new.as_ref().map_or(LOOK, |_| SETTLE);
            tokio::time::sleep(pause).await;
            let path = file.clone();
            // A drive that hangs holds up this look only.
            let Ok(found) = tokio::task::spawn_blocking(move || read(&path)).await else {
                continue;
            };
            if let Some(told) = self.look(found) {
                return told;
            }
        }
    }

    /// What there is to tell about what was found.
    pub(super) fn look(
        &mut self,
        found: Result<String, Gone>,
    ) -> Option<Result<Config, ConfigError>> {
        let before = self.new.take();
        if found == self.told {
            return None;
        }
        if before.as_ref() != Some(&found) {
            self.new = Some(found);
            return None;
        }
        let config = self.config(&found);
        self.told = found;
        Some(config)
    }

    fn config(&self, text: &Result<String, Gone>) -> Result<Config, ConfigError> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut config = self.base.clone();
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let text = text
                .as_ref()
                .map_err(|Gone(why)| Problem::new(&[], why.as_str()).at(&name, None))?;
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let place = Place {
                variable: &variable,
                folder: absolute.parent().unwrap_or(Path::new("")),
            };
            config = parse(text, &name, &place, config)?;
        }
        let place = Place {
            variable: &variable,
            folder: Path::new(""),
        };
        for text in &self.quick {
            let wrong = |problem: Problem| problem.at("--backend", None);
            let (key, backend) = cli_backend::parse(text, &place).map_err(wrong)?;
            if config.backends.insert(key.clone(), backend).is_some() {
                return Err(wrong(Problem::new(
                    &[key.as_str()],
                    "there is another backend with this name",
                )));
            }
        }
        if self.file.is_none() && self.quick.is_empty() {
            config.backends.extend(cli_backend::local());
        }
        if self.events {
            config.events = self.base.events.clone();
        }
        Ok(config)
    }
}

/// Ours is TOML; JSON is that of another host.
pub(super) fn parse(
    text: &str,
    name: &str,
    place: &Place<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let text = text.trim_start_matches('\u{feff}');
    // No TOML starts with a brace, not even behind a comment of ours.
    let json = text.trim_start().starts_with('{') || name.ends_with(".json");
    if json {
        mcp_json::parse(text, name, place, base)
    } else {
        file::parse(text, name, place, base)
    }
}

fn read(path: &Path) -> Result<String, Gone> {
    let gone = |error: io::Error| Gone(format!("cannot be read: {}", error.kind()));
    let size = std::fs::metadata(path).map_err(gone)?.len();
    if size > MAX_BYTES {
        return Err(Gone("is larger than 4 MiB".to_owned()));
    }
    std::fs::read_to_string(path).map_err(gone)
}
