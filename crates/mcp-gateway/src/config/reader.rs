//! The texts of one backend, with what they stand for put in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Secret;
use super::error::Problem;
use super::expand::{Place, Unset, is_variable};

/// Reads the texts of one backend. A variable that is not set makes the backend unusable, not the
/// configuration.
pub(super) struct Reader<'a> {
    /// Where the backend stands in its file.
    at: [&'a str; 2],
    place: &'a Place<'a>,
    /// Why the backend cannot be used as things are.
    pub(super) missing: Option<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(at: [&'a str; 2], place: &'a Place<'a>) -> Self {
        Self {
            at,
            place,
            missing: None,
        }
    }

    pub(super) fn wrong(&self, field: &str, what: impl Into<String>) -> Problem {
        Problem::new(&[self.at[0], self.at[1], field], what)
    }

    pub(super) fn command(&mut self, argv: Vec<String>) -> Result<Vec<String>, Problem> {
        let argv: Vec<String> = argv
            .iter()
            .map(|argument| self.text("command", argument))
            .collect::<Result<_, _>>()?;
        let program = argv.first().map_or("", String::as_str);
        if program.trim().is_empty() && self.missing.is_none() {
            return Err(self.wrong("command", "names no program"));
        }
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(self.wrong("command", "holds a NUL character"));
        }
        Ok(argv)
    }

    pub(super) fn url(&mut self, url: &str) -> Result<String, Problem> {
        let url = self.text("url", url.trim())?;
        if self.missing.is_none() {
            // The same look that the client takes later, when nobody is there to correct it.
            let _usable = mcp_client::Endpoint::new(&url).map_err(|_| {
                let what = "must start with http:// or https:// and name a host, without a user name or password: use `token` or `headers`";
                self.wrong("url", what)
            })?;
        }
        Ok(url)
    }

    pub(super) fn secrets(
        &mut self,
        field: &str,
        texts: Option<BTreeMap<String, String>>,
    ) -> Result<BTreeMap<String, Secret>, Problem> {
        let mut secrets = BTreeMap::new();
        for (name, text) in texts.unwrap_or_default() {
            let legal = match field {
                "env" => is_variable(&name),
                _ => {
                    !name.is_empty()
                        && name.bytes().all(|byte| {
                            byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
                        })
                }
            };
            if !legal {
                return Err(self.wrong(field, format!("{name:?} cannot be a name here")));
            }
            if let Some(secret) = self.secret(field, &text)? {
                secrets.insert(name, secret);
            }
        }
        Ok(secrets)
    }

    pub(super) fn token(&mut self, text: Option<String>) -> Result<Option<Secret>, Problem> {
        text.map_or(Ok(None), |text| self.secret("token", &text))
    }

    pub(super) fn names(&self, names: Option<Vec<String>>) -> Result<Vec<String>, Problem> {
        let names = names.unwrap_or_default();
        match names.iter().find(|name| !is_variable(name)) {
            Some(name) => Err(self.wrong(
                "env_pass",
                format!("{name:?} is not the name of a variable"),
            )),
            None => Ok(names),
        }
    }

    pub(super) fn folder(&mut self, folder: Option<String>) -> Result<Option<PathBuf>, Problem> {
        let Some(folder) = folder else {
            return Ok(None);
        };
        let folder = self.text("cwd", &folder)?;
        Ok(Some(self.place.folder.join(folder)))
    }

    fn secret(&mut self, field: &str, text: &str) -> Result<Option<Secret>, Problem> {
        match self.place.secret(text) {
            Ok(secret) => Ok(Some(secret)),
            Err(unset) => self.unset(field, unset).map(|()| None),
        }
    }

    fn text(&mut self, field: &str, text: &str) -> Result<String, Problem> {
        match self.place.text(text) {
            Ok(text) => Ok(text),
            Err(unset) => self.unset(field, unset).map(|()| String::new()),
        }
    }

    fn unset(&mut self, field: &str, unset: Unset) -> Result<(), Problem> {
        match unset {
            Unset::Missing(_) => {
                self.missing.get_or_insert(unset.to_string());
                Ok(())
            }
            Unset::Wrong(what) => Err(self.wrong(field, what)),
        }
    }
}
