//! Parses the configuration file in TOML.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_access::{Filter, Rule};
use gateway_store::events::StoreLocation;
use mcp_client::EraChoice;
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use toml::de::DeTable;

use super::approvals::ApprovalsTable;
use super::duration::ConfigDuration;
use super::error::{Problem, line_at, line_of};
use super::expand::{Environment, reason};
use super::oauth::OAuthEntry;
use super::protocol::Protocol;
use super::reader::FieldReader;
use super::roles::{self, RoleEntry};
use super::views::{self, ViewEntry};
use super::{
    BackendConfig, BackendKey, Child, Config, ConfigError, DisabledReason, FirstSight, Isolation,
    PinMode, PinPolicy, Remote, RemoteTransport, Target, ToolOverride,
};

const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Minimum for the event log: its write-ahead log alone takes 8 MiB.
const MIN_MEGABYTES: u64 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    backends: BTreeMap<String, BackendEntry>,
    timeout: Option<ConfigDuration>,
    start_timeout: Option<ConfigDuration>,
    search_above: Option<usize>,
    pins: Option<PinMode>,
    first_sight: Option<FirstSight>,
    approvals: Option<ApprovalsTable>,
    events: Option<EventsTable>,
    #[serde(default)]
    roles: BTreeMap<String, RoleEntry>,
    #[serde(default)]
    principals: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    views: BTreeMap<String, ViewEntry>,
    /// Read before, with the command line: the options of every server.
    #[expect(dead_code, reason = "only accepted here")]
    server: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackendEntry {
    command: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    env_pass: Option<Vec<String>>,
    cwd: Option<String>,
    url: Option<String>,
    protocol: Option<Protocol>,
    #[serde(alias = "type")]
    transport: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    token: Option<String>,
    ca: Option<String>,
    client_cert: Option<String>,
    client_key: Option<String>,
    proxy: Option<String>,
    oauth: Option<OAuthEntry>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    bare: bool,
    baggage: Option<bool>,
    timeout: Option<ConfigDuration>,
    start_timeout: Option<ConfigDuration>,
    idle_timeout: Option<ConfigDuration>,
    max_in_flight: Option<u32>,
    #[serde(default)]
    isolation: Isolation,
    max_instances: Option<u32>,
    #[serde(default)]
    tools: BTreeMap<String, ToolOverride>,
    pins: Option<PinMode>,
    first_sight: Option<FirstSight>,
    #[serde(default)]
    allow_link_local: bool,
    #[serde(default)]
    disabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsTable {
    store: Option<String>,
    days: Option<u32>,
    rows: Option<u64>,
    megabytes: Option<u64>,
    #[serde(default)]
    record: Vec<String>,
}

/// Parses a TOML file; `name` stands for it in errors. `base` has the values of absent fields.
pub(super) fn parse(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| wrong(text, name, "", &error))?;
    parse_table(table, text, name, environment, base)
}

/// Parses the table of the file with this text.
pub(super) fn parse_table(
    table: Spanned<DeTable<'_>>,
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let reader = toml::Deserializer::from(table);
    let file: ConfigFile = serde_path_to_error::deserialize(reader).map_err(|error| {
        let field = error.path().to_string();
        wrong(text, name, field.trim_start_matches('.'), error.inner())
    })?;
    file.check(text, environment, base).map_err(|problem| {
        let line = line_of(text, &problem.field);
        problem.at(name, line)
    })
}

fn wrong(text: &str, name: &str, field: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError {
        origin: name.to_owned(),
        line: error.span().map(|span| line_at(text, span.start)),
        field: field.to_owned(),
        problem: without_values(error.message()),
    }
}

/// Returns an error message without the value that was found: it might be a secret in the wrong field.
fn without_values(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    let has_no_value = [
        "unknown field",
        "unknown variant",
        "missing field",
        "duplicate",
    ];
    if has_no_value.iter().any(|start| first.starts_with(start)) {
        return first.to_owned();
    }
    match first.find("expected ") {
        Some(at) => first[at..].to_owned(),
        None if first.contains(['"', '`']) => "this value cannot be used here".to_owned(),
        None => first.to_owned(),
    }
}

impl ConfigFile {
    fn check(
        self,
        text: &str,
        environment: &Environment<'_>,
        base: Config,
    ) -> Result<Config, Problem> {
        let mut config = base;
        config.roles = roles::build(text, &self.roles, &self.principals)?.map(Arc::new);
        let is_bare = self.backends.iter();
        let is_bare = is_bare.map(|(key, entry)| (key.clone(), entry.bare));
        config.views = views::build(text, self.views, &is_bare.collect())?;
        config.approvals = self
            .approvals
            .unwrap_or_default()
            .build(text, environment)?;
        config.pins = config.pins.with(self.pins, self.first_sight);
        let timeout = checked_timeout(self.timeout, &["timeout"])?;
        let start = checked_timeout(self.start_timeout, &["start_timeout"])?;
        let start = start.unwrap_or(super::START_TIMEOUT);
        for (name, entry) in self.backends {
            let at = ["backends", &name];
            let key = BackendKey::parse(&name).map_err(|text| Problem::new(&at, text))?;
            let mut backend = entry.check(&name, environment, start, config.pins)?;
            backend.timeout = backend.timeout.or(timeout);
            config.backends.insert(key, backend);
        }
        config.search_above = self.search_above.or(config.search_above);
        if let Some(events) = self.events {
            events.check(environment, &mut config)?;
        }
        Ok(config)
    }
}

impl BackendEntry {
    fn check(
        self,
        name: &str,
        environment: &Environment<'_>,
        start_timeout: Duration,
        pins: PinPolicy,
    ) -> Result<BackendConfig, Problem> {
        let wrong = |field: &str, text: &str| Problem::new(&["backends", name, field], text);
        let timeout = checked_timeout(self.timeout, &["backends", name, "timeout"])?;
        let start = checked_timeout(self.start_timeout, &["backends", name, "start_timeout"])?;
        let idle = self.idle_timeout.map(|ConfigDuration(idle)| idle);
        if idle.is_some_and(|idle| idle.is_zero()) {
            return Err(wrong("idle_timeout", "must be more than 0"));
        }
        let max_in_flight = self.max_in_flight.unwrap_or(super::MAX_IN_FLIGHT);
        if max_in_flight == 0 {
            return Err(wrong("max_in_flight", "must be more than 0"));
        }
        let era = self.protocol.unwrap_or_default().into();
        let is_shared = self.isolation == Isolation::Shared;
        if self.max_instances.is_some() && is_shared {
            let text = "needs `isolation = \"principal\"` or `isolation = \"session\"`";
            return Err(wrong("max_instances", text));
        }
        let max_instances = self.max_instances.unwrap_or(super::MAX_INSTANCES);
        if max_instances == 0 {
            return Err(wrong("max_instances", "must be more than 0"));
        }
        if let Some((tool, _)) = self.tools.iter().find(|(_, tool)| tool.is_empty()) {
            let text = "needs `title`, `description` or `effect`";
            return Err(Problem::new(&["backends", name, "tools", tool], text));
        }
        let filter = Filter::new(&self.allow, &self.deny);
        let disabled = self.disabled.then_some(DisabledReason::Configured);
        let check_absent = |fields: &[(&str, bool)], text: &str| {
            let given = fields.iter().find(|(_, is_given)| *is_given);
            given.map_or(Ok(()), |(field, _)| Err(wrong(field, text)))
        };
        let mut reader = FieldReader::new(["backends", name], environment);
        reader.allows_link_local = self.allow_link_local;
        let target = match (self.command, self.url) {
            (Some(command), None) => {
                let foreign = [
                    ("transport", self.transport.is_some()),
                    ("headers", self.headers.is_some()),
                    ("token", self.token.is_some()),
                    ("ca", self.ca.is_some()),
                    ("client_cert", self.client_cert.is_some()),
                    ("client_key", self.client_key.is_some()),
                    ("proxy", self.proxy.is_some()),
                    ("oauth", self.oauth.is_some()),
                ];
                check_absent(&foreign, "is only for a backend with `url`")?;
                Target::Child(Child {
                    written: command.clone(),
                    argv: reader.command(command)?,
                    env: reader.secrets("env", self.env)?,
                    env_pass: reader.names(self.env_pass)?,
                    cwd: reader.folder(self.cwd)?,
                })
            }
            (None, Some(url)) => {
                let foreign = [
                    ("idle_timeout", idle.is_some() && is_shared),
                    ("env", self.env.is_some()),
                    ("env_pass", self.env_pass.is_some()),
                    ("cwd", self.cwd.is_some()),
                ];
                check_absent(&foreign, "is only for a backend with `command`")?;
                let transport = self.transport.map(|name| {
                    let text = "must be `http` (Streamable HTTP) or `sse` (HTTP+SSE of 2024-11-05)";
                    RemoteTransport::parse(&name).ok_or_else(|| wrong("transport", text))
                });
                if !is_shared && era == EraChoice::Unversioned {
                    let text = "must be \"shared\", since a backend with `protocol = \"rpc\"` has no sessions";
                    return Err(wrong("isolation", text));
                }
                let written = url;
                let url = reader.url(&written)?;
                if self.oauth.is_some() && self.token.is_some() {
                    return Err(wrong("token", "must not be combined with `oauth`"));
                }
                let oauth = self
                    .oauth
                    .map(|entry| entry.check(name, &mut reader).map(Box::new));
                let files = [self.ca, self.client_cert, self.client_key];
                let remote = Remote {
                    tls: reader.tls(&url, files)?,
                    proxy: reader.proxy(self.proxy)?,
                    oauth: oauth.transpose()?,
                    url,
                    written,
                    transport: transport.transpose()?.unwrap_or_default(),
                    headers: reader.secrets("headers", self.headers)?,
                    token: reader.token(self.token)?,
                };
                Target::Http(remote)
            }
            (Some(_), Some(_)) => {
                return Err(wrong("url", "must not be combined with `command`"));
            }
            (None, None) => {
                let text = "needs `command`, a program and its arguments, or `url`";
                return Err(Problem::new(&["backends", name], text));
            }
        };
        Ok(BackendConfig {
            baggage: self.baggage.unwrap_or_else(|| target.is_local()),
            target,
            era,
            filter,
            bare: self.bare,
            is_alone: false,
            timeout,
            start_timeout: start.unwrap_or(start_timeout),
            idle_timeout: idle,
            max_in_flight,
            isolation: self.isolation,
            max_instances,
            tools: self.tools,
            pins: pins.with(self.pins, self.first_sight),
            disabled: disabled.or(reader.missing),
        })
    }
}

impl EventsTable {
    fn check(self, environment: &Environment<'_>, config: &mut Config) -> Result<(), Problem> {
        let wrong = |field: &str, text: &str| Problem::new(&["events", field], text);
        if let Some(store) = &self.store {
            let store = environment.text(store);
            let store = store.map_err(|error| wrong("store", &reason(&error)))?;
            let store = StoreLocation::parse(&store, environment.folder);
            config.events = store.map_err(|text| wrong("store", text))?;
        }
        let retention = &mut config.retention;
        if let Some(days) = self.days {
            retention.age = Duration::from_secs(86_400 * u64::from(days));
        }
        retention.rows = self.rows.unwrap_or(retention.rows);
        if let Some(megabytes) = self.megabytes {
            if megabytes < MIN_MEGABYTES {
                return Err(wrong("megabytes", "must be at least 16"));
            }
            retention.bytes = megabytes.saturating_mul(1 << 20);
        }
        if retention.age.is_zero() || retention.rows == 0 {
            let text = "`days` and `rows` must be at least 1";
            return Err(Problem::new(&["events"], text));
        }
        for pattern in &self.record {
            let parts = pattern.split_once('.');
            let parts = parts.filter(|(tool, name)| !tool.is_empty() && !name.is_empty());
            let (tools, arguments) = parts.ok_or_else(|| {
                let text = "must be TOOL.ARGUMENT, such as docker__*.container; `*` matches any characters";
                wrong("record", text)
            })?;
            let rule = |pattern: &str| Rule::new(pattern.to_owned(), "events".into(), "record", 0);
            config.record.push((rule(tools), rule(arguments)));
        }
        Ok(())
    }
}

fn checked_timeout(
    timeout: Option<ConfigDuration>,
    field: &[&str],
) -> Result<Option<Duration>, Problem> {
    match timeout.map(|ConfigDuration(timeout)| timeout) {
        Some(timeout) if timeout.is_zero() || timeout > MAX_TIMEOUT => {
            Err(Problem::new(field, "must be more than 0 and at most 600 s"))
        }
        timeout => Ok(timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_found_in_its_line() {
        let text = "a = 1\n\n[b.c]\nd = { e = 2 }\n[b.\"x y\"]\n";
        for (field, expected) in [
            ("a", Some(1)),
            ("b.c", Some(3)),
            ("b.c.d.e", Some(4)),
            ("b.c.missing", Some(3)),
            ("b.x y.z", Some(5)),
            ("missing", None),
        ] {
            let parts: Vec<String> = field.split('.').map(str::to_owned).collect();
            assert_eq!(line_of(text, &parts), expected, "{field}");
        }
    }
}
