//! Reads the fields of one backend: expands variables and validates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway_access::Rule;
use http::HeaderName;
use mcp_client::tls::TlsFiles;
use mcp_client::{EraChoice, Proxy, Revision};
use mcp_core::revision::MODERN;
use mcp_serve::expand::expand;
pub(super) use mcp_serve::expand::{ExpandError, is_variable};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use toml::de::DeTable;

use super::{DisabledReason, Secret};

/// Headers of a client that no backend gets: they have credentials, or are about one connection.
const RESERVED_HEADERS: [&str; 15] = [
    "accept",
    "authorization",
    "baggage",
    "connection",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "origin",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The beginnings of others, and of those that the gateway writes itself.
const RESERVED_PREFIXES: [&str; 4] = ["content-", "mcp-", "proxy-", "trace"];

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

    pub(super) fn wrong(&self, field: &str, text: impl Into<String>) -> ConfigError {
        ConfigError::new(&[self.at[0], self.at[1], field], text)
    }

    pub(super) fn command(&mut self, argv: Vec<String>) -> Result<Vec<String>, ConfigError> {
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

    pub(super) fn url(&mut self, url: &str) -> Result<String, ConfigError> {
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
    ) -> Result<BTreeMap<String, Secret>, ConfigError> {
        let mut secrets = BTreeMap::new();
        for (name, text) in texts.unwrap_or_default() {
            let legal = match field {
                "env" => is_variable(&name),
                _ => name.parse::<HeaderName>().is_ok(),
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

    /// Reads `forward_headers` and `identity_header`; `own` are the fixed headers of the backend.
    pub(super) fn of_callers(
        &self,
        forwarded: &[String],
        identity: Option<&str>,
        own: Option<&BTreeMap<String, String>>,
    ) -> Result<(Vec<HeaderName>, Option<HeaderName>), ConfigError> {
        let read = |field: &str, name: &str| {
            let read = name.parse::<HeaderName>();
            let read = read.map_err(|_| self.wrong(field, format!("{name:?} is not a header")))?;
            let text = read.as_str();
            let is_reserved = RESERVED_HEADERS.contains(&text)
                || RESERVED_PREFIXES
                    .iter()
                    .any(|start| text.starts_with(start));
            if is_reserved {
                let text = format!(
                    "{name:?} is a header with credentials, of the connection or of the protocol, which is not passed on"
                );
                return Err(self.wrong(field, text));
            }
            let mut fixed = own.into_iter().flatten();
            if fixed.any(|(own, _)| own.eq_ignore_ascii_case(text)) {
                return Err(self.wrong(field, format!("{name:?} is in `headers` too")));
            }
            Ok(read)
        };
        let forwarded = forwarded.iter().map(|name| read("forward_headers", name));
        let forwarded: Vec<HeaderName> = forwarded.collect::<Result<_, _>>()?;
        let identity = identity.map(|name| read("identity_header", name));
        let identity = identity.transpose()?;
        match identity.as_ref().filter(|name| forwarded.contains(name)) {
            // A client could give itself any name.
            Some(name) => {
                let text = format!("{:?} is in `forward_headers` too", name.as_str());
                Err(self.wrong("identity_header", text))
            }
            None => Ok((forwarded, identity)),
        }
    }

    /// Reads the files `ca`, `client_cert` and `client_key`.
    pub(super) fn tls(
        &mut self,
        url: &str,
        [ca, cert, key]: [Option<String>; 3],
    ) -> Result<TlsFiles, ConfigError> {
        let texts = [
            self.optional("ca", ca)?,
            self.optional("client_cert", cert)?,
            self.optional("client_key", key)?,
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

    pub(super) fn proxy(&mut self, proxy: Option<String>) -> Result<Proxy, ConfigError> {
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

    pub(super) fn names(&self, names: Option<Vec<String>>) -> Result<Vec<String>, ConfigError> {
        let names = names.unwrap_or_default();
        match names.iter().find(|name| !is_variable(name)) {
            Some(name) => {
                let text = format!("{name:?} is not a valid name of a variable");
                Err(self.wrong("env_pass", text))
            }
            None => Ok(names),
        }
    }

    pub(super) fn folder(
        &mut self,
        folder: Option<String>,
    ) -> Result<Option<PathBuf>, ConfigError> {
        let folder = self.optional("cwd", folder)?;
        Ok(folder.map(|folder| self.environment.folder.join(folder)))
    }

    pub(super) fn optional_secret(
        &mut self,
        field: &str,
        text: Option<String>,
    ) -> Result<Option<Secret>, ConfigError> {
        text.map_or(Ok(None), |text| self.secret(field, &text))
    }

    fn secret(&mut self, field: &str, text: &str) -> Result<Option<Secret>, ConfigError> {
        match self.environment.secret(text) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) => self.unset(field, error).map(|()| None),
        }
    }

    pub(super) fn optional(
        &mut self,
        field: &str,
        text: Option<String>,
    ) -> Result<Option<String>, ConfigError> {
        text.map(|text| self.text(field, &text)).transpose()
    }

    fn text(&mut self, field: &str, text: &str) -> Result<String, ConfigError> {
        match self.environment.text(text) {
            Ok(text) => Ok(text),
            Err(error) => self.unset(field, error).map(|()| String::new()),
        }
    }

    fn unset(&mut self, field: &str, error: ExpandError) -> Result<(), ConfigError> {
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

/// An error in the configuration. Contains no value of it, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The file, or the option of the command line, once it is known.
    pub(crate) origin: String,
    /// The line, counted from 1, if it is known.
    pub(crate) line: Option<usize>,
    /// The path of the field, such as `backends`, `docker`, `timeout`; empty if it is not known.
    pub(crate) field: Vec<String>,
    /// The error, and the expected value.
    pub(crate) problem: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field.join("."))?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl ConfigError {
    /// An error in one field, at a place that [`at`](Self::at) tells.
    pub(crate) fn new(field: &[&str], problem: impl Into<String>) -> Self {
        Self {
            origin: String::new(),
            line: None,
            field: field.iter().map(|&part| part.to_owned()).collect(),
            problem: problem.into(),
        }
    }

    /// An error in one pattern of a list.
    pub(super) fn of_rule(rule: &Rule, problem: String) -> Self {
        Self {
            line: Some(rule.line),
            ..Self::new(&rule.field(), problem)
        }
    }

    /// The error in a file with this text.
    pub(super) fn at(self, origin: &str, text: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            line: self.line.or_else(|| line_of(text, &self.field)),
            ..self
        }
    }
}

/// Returns the line of a byte, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// Returns the line of a field in a file in TOML, counted from 1; the line of its table if the field is absent.
pub(super) fn line_of(text: &str, field: &[String]) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let mut table = Some(file.get_ref());
    let mut at = None;
    for part in field {
        let found = table?.iter().find(|(key, _)| *key.get_ref() == *part);
        let Some((key, value)) = found else { break };
        at = Some(key.span().start);
        table = value.get_ref().as_table();
    }
    at.map(|at| line_at(text, at))
}

/// The environment variables, and the folder of relative paths.
pub(super) struct Environment<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) folder: &'a Path,
}

impl<'a> Environment<'a> {
    /// The variables of this process.
    pub(super) fn of_process(folder: &'a Path) -> Self {
        let variable = &|name: &str| std::env::var(name).ok();
        Self { variable, folder }
    }

    /// Expands the variables in `text`.
    pub(super) fn text(&self, text: &str) -> Result<String, ExpandError> {
        expand(text, self.variable)
    }

    /// Expands a text or `file:PATH` to a secret.
    pub(super) fn secret(&self, text: &str) -> Result<Secret, ExpandError> {
        let text = self.text(text)?;
        Ok(match text.strip_prefix("file:") {
            Some(path) => Secret::File(self.folder.join(path)),
            None => Secret::Text(text),
        })
    }
}

/// The text of an error. The `${input:NAME}` of an editor's `mcp.json` has one of its own.
pub(super) fn reason(error: &ExpandError) -> String {
    let input = match error {
        ExpandError::Unknown(reference) => reference.strip_prefix("input:"),
        _ => None,
    };
    match input {
        Some(input) => format!(
            "the gateway cannot ask for the input `{input}`: use an environment variable, ${{NAME}}, or file:PATH"
        ),
        None => error.to_string(),
    }
}

/// A duration of more than zero, and at most `MOST` seconds: seconds as a number, or a text like `500ms`, `30s`, `5m`, `2h`,
/// `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfigDuration<const MOST: u64 = { u64::MAX }>(pub(super) Duration);

impl<const MOST: u64> JsonSchema for ConfigDuration<MOST> {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"},
        ]})
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Seconds(f64),
    Text(String),
}

impl<'de, const MOST: u64> Deserialize<'de> for ConfigDuration<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration = match NumberOrText::deserialize(deserializer) {
            Ok(NumberOrText::Seconds(seconds)) => Duration::try_from_secs_f64(seconds).ok(),
            Ok(NumberOrText::Text(text)) => upstream::time::parse_duration(&text),
            Err(_) => None,
        };
        let expected =
            "expected seconds, or a string like \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"";
        let duration = duration.ok_or_else(|| D::Error::custom(expected))?;
        if !duration.is_zero() && duration <= Duration::from_secs(MOST) {
            return Ok(Self(duration));
        }
        let most = match MOST {
            u64::MAX => String::new(),
            3_600.. => format!(" and at most {} h", MOST / 3_600),
            _ => format!(" and at most {MOST} s"),
        };
        Err(D::Error::custom(format!("must be more than 0{most}")))
    }
}

/// Reads `mcp` (the newest revision that the backend supports), a revision, or `rpc` (no handshake, seed 000).
pub(super) fn era<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EraChoice, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "mcp" => Ok(EraChoice::Newest),
        "rpc" => Ok(EraChoice::Unversioned),
        MODERN => Ok(EraChoice::Modern),
        text => Revision::parse(text)
            .map(EraChoice::Revision)
            .ok_or_else(|| {
                let revisions = Revision::ALL.map(Revision::as_str).join(", ");
                D::Error::custom(format!("expected one of mcp, rpc, {revisions}, {MODERN}"))
            }),
    }
}
