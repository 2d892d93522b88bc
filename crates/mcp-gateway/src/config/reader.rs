//! Reads the fields of one backend: expands variables and validates.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mcp_client::Proxy;
use mcp_client::tls::TlsFiles;

use super::error::Problem;
use super::expand::{Environment, ExpandError, is_variable, reason};
use super::{DisabledReason, Secret};

/// Reads the fields of one backend. A variable that is not set disables this backend only.
pub(super) struct FieldReader<'a> {
    /// The path of the backend in its file.
    at: [&'a str; 2],
    environment: &'a Environment<'a>,
    /// Its address may be one of the local link.
    pub(super) allows_link_local: bool,
    /// The reason why the backend is disabled.
    pub(super) missing: Option<DisabledReason>,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(at: [&'a str; 2], environment: &'a Environment<'a>) -> Self {
        Self {
            at,
            environment,
            allows_link_local: false,
            missing: None,
        }
    }

    pub(super) fn wrong(&self, field: &str, text: impl Into<String>) -> Problem {
        Problem::new(&[self.at[0], self.at[1], field], text)
    }

    pub(super) fn command(&mut self, argv: Vec<String>) -> Result<Vec<String>, Problem> {
        let argv: Vec<String> = argv
            .iter()
            .map(|argument| self.text("command", argument))
            .collect::<Result<_, _>>()?;
        let program = argv.first().map_or("", String::as_str);
        if program.trim().is_empty() && self.missing.is_none() {
            return Err(self.wrong("command", "must name a program"));
        }
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(self.wrong("command", "has a NUL character"));
        }
        Ok(argv)
    }

    pub(super) fn url(&mut self, url: &str) -> Result<String, Problem> {
        let url = self.text("url", url.trim())?;
        if self.missing.is_none() {
            // The client does the same check, but only at its first request.
            let endpoint = mcp_client::Endpoint::new(&url).map_err(|_| {
                let text = "must start with http:// or https:// and name a host, without a user name or password: use `token` or `headers`";
                self.wrong("url", text)
            })?;
            if endpoint.is_link_local() && !self.allows_link_local {
                self.missing = Some(DisabledReason::LinkLocal);
            }
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
                return Err(self.wrong(field, format!("{name:?} is not a valid name here")));
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

    /// Reads the files `ca`, `client_cert` and `client_key`.
    pub(super) fn tls(
        &mut self,
        url: &str,
        [ca, cert, key]: [Option<String>; 3],
    ) -> Result<TlsFiles, Problem> {
        let mut path = |field: &str, text: Option<String>| match text {
            Some(text) => self.text(field, &text).map(Some),
            None => Ok(None),
        };
        let texts = [
            path("ca", ca)?,
            path("client_cert", cert)?,
            path("client_key", key)?,
        ];
        let [ca, cert, key] = texts.map(|text| Some(self.environment.folder.join(text?)));
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(self.wrong("client_cert", "needs `client_key`")),
            (None, Some(_)) => return Err(self.wrong("client_key", "needs `client_cert`")),
        };
        let files = TlsFiles { ca, client };
        if files == TlsFiles::default() || self.missing.is_some() {
            return Ok(files);
        }
        if !url.starts_with("https://") {
            let field = if files.ca.is_some() {
                "ca"
            } else {
                "client_cert"
            };
            return Err(self.wrong(field, "needs a `url` with https://"));
        }
        let checked = files.load();
        checked.map_err(|error| self.wrong(error.field, error.problem))?;
        Ok(files)
    }

    pub(super) fn proxy(&mut self, proxy: Option<String>) -> Result<Proxy, Problem> {
        let Some(proxy) = proxy else {
            return Ok(Proxy::Environment);
        };
        match self.text("proxy", proxy.trim())? {
            none if none == "none" => Ok(Proxy::Direct),
            url if self.missing.is_some() || Proxy::is_url(&url) => Ok(Proxy::Url(url)),
            _ => {
                let text = "must be \"none\" or http://[USER:PASSWORD@]HOST:PORT";
                Err(self.wrong("proxy", text))
            }
        }
    }

    pub(super) fn names(&self, names: Option<Vec<String>>) -> Result<Vec<String>, Problem> {
        let names = names.unwrap_or_default();
        match names.iter().find(|name| !is_variable(name)) {
            Some(name) => {
                let text = format!("{name:?} is not a valid name of a variable");
                Err(self.wrong("env_pass", text))
            }
            None => Ok(names),
        }
    }

    pub(super) fn folder(&mut self, folder: Option<String>) -> Result<Option<PathBuf>, Problem> {
        let Some(folder) = folder else {
            return Ok(None);
        };
        let folder = self.text("cwd", &folder)?;
        Ok(Some(self.environment.folder.join(folder)))
    }

    pub(super) fn secret(&mut self, field: &str, text: &str) -> Result<Option<Secret>, Problem> {
        match self.environment.secret(text) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) => self.unset(field, error).map(|()| None),
        }
    }

    pub(super) fn text(&mut self, field: &str, text: &str) -> Result<String, Problem> {
        match self.environment.text(text) {
            Ok(text) => Ok(text),
            Err(error) => self.unset(field, error).map(|()| String::new()),
        }
    }

    fn unset(&mut self, field: &str, error: ExpandError) -> Result<(), Problem> {
        match error {
            ExpandError::Missing(name) => {
                self.missing
                    .get_or_insert(DisabledReason::MissingVariable(name));
                Ok(())
            }
            other => Err(self.wrong(field, reason(&other))),
        }
    }
}
