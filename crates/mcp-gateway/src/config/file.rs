//! Parses the configuration file in TOML.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_access::{EffectName, Filter, Rule};
use gateway_approvals::approvals::ApprovalConfig;
use gateway_store::events::StoreLocation;
use mcp_client::EraChoice;
use mcp_client::oauth::GrantType;
use mcp_client::tls::TlsFiles;
use mcp_core::jsonrpc::Members;
use mcp_core::suggestion::nearest;
use mcp_core::tool::Effect;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use serde_path_to_error::{Path, Segment};
use toml::Spanned;
use toml::de::DeTable;

use super::reader::{ConfigDuration, Environment, FieldReader, era, line_at, reason};
use super::roles::{Patterns, RoleEntry, ViewEntry};
use super::{
    BackendConfig, BackendKey, Child, Config, ConfigError, DisabledReason, FirstSight, Isolation,
    PinMode, PinPolicy, Remote, RemoteTransport, Secret, Target, roles,
};

/// The time for a call, or for the start of a backend.
type Timeout = ConfigDuration<600>;

/// Minimum for the event log: its write-ahead log alone takes 8 MiB.
const MIN_MEGABYTES: u64 = 16;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    backends: BTreeMap<String, BackendEntry>,
    timeout: Option<Timeout>,
    start_timeout: Option<Timeout>,
    search_above: Option<usize>,
    pins: Option<PinMode>,
    first_sight: Option<FirstSight>,
    approvals: Option<ApprovalsTable>,
    events: Option<EventsTable>,
    roles: BTreeMap<String, RoleEntry>,
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    principals: BTreeMap<String, Spanned<String>>,
    views: BTreeMap<String, ViewEntry>,
    /// Read before, with the command line: the options of every server.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    server: Option<IgnoredAny>,
}

/// A server behind the gateway.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BackendEntry {
    pub(super) command: Option<Vec<String>>,
    pub(super) env: Option<BTreeMap<String, String>>,
    pub(super) env_pass: Option<Vec<String>>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    #[serde(deserialize_with = "era")]
    #[schemars(with = "Option<String>")]
    pub(super) protocol: EraChoice,
    #[serde(alias = "type")]
    pub(super) transport: Option<String>,
    pub(super) headers: Option<BTreeMap<String, String>>,
    pub(super) forward_headers: Vec<String>,
    pub(super) identity_header: Option<String>,
    pub(super) token: Option<String>,
    pub(super) ca: Option<String>,
    pub(super) client_cert: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) proxy: Option<String>,
    pub(super) oauth: Option<OAuthEntry>,
    pub(super) allow: Vec<String>,
    pub(super) deny: Vec<String>,
    pub(super) bare: bool,
    pub(super) baggage: Option<bool>,
    pub(super) timeout: Option<Timeout>,
    pub(super) start_timeout: Option<Timeout>,
    pub(super) idle_timeout: Option<ConfigDuration>,
    pub(super) max_in_flight: Option<u32>,
    #[schemars(with = "Option<Isolation>")]
    pub(super) isolation: Isolation,
    pub(super) questions: Option<bool>,
    pub(super) max_instances: Option<u32>,
    pub(super) tools: BTreeMap<String, ToolOverride>,
    pub(super) pins: Option<PinMode>,
    pub(super) first_sight: Option<FirstSight>,
    pub(super) allow_link_local: bool,
    pub(super) disabled: bool,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EventsTable {
    store: Option<String>,
    days: Option<u32>,
    rows: Option<u64>,
    megabytes: Option<u64>,
    record: Vec<String>,
}

/// The JSON Schema of the file in TOML, of which `server` is that of the table with this name.
pub(crate) fn schema(server: Value) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let generated = settings
        .into_generator()
        .into_root_schema_for::<ConfigFile>();
    let mut schema = generated.to_value();
    without_null(&mut schema);
    if let Some(file) = schema.as_object_mut() {
        // The command writes its own.
        file.remove("$schema");
        file.remove("title");
    }
    schema["properties"]["server"] = server;
    schema
}

/// Removes the type `null` of optional fields, which TOML does not have.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(without_null),
        Value::Object(members) => {
            if members.get("default").is_some_and(Value::is_null) {
                members.remove("default");
            }
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    members.remove("anyOf");
                    members.extend(only);
                }
            }
            members.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

/// Parses a TOML file; `name` stands for it in errors. `base` has the values of absent fields.
pub(super) fn parse(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| wrong(text, name, Vec::new(), &error))?;
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
    let file: ConfigFile = serde_path_to_error::deserialize(reader)
        .map_err(|error| wrong(text, name, parts(error.path()), error.inner()))?;
    file.check(text, environment, base)
        .map_err(|error| error.at(name, text))
}

/// The parts of the path of a field. An item of a list stands with its list: `command[1]`.
fn parts(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for segment in path {
        match (segment, parts.last_mut()) {
            (Segment::Seq { .. }, Some(list)) => list.push_str(&segment.to_string()),
            _ => parts.push(segment.to_string()),
        }
    }
    parts
}

fn wrong(text: &str, name: &str, field: Vec<String>, error: &toml::de::Error) -> ConfigError {
    ConfigError {
        origin: name.to_owned(),
        line: error.span().map(|span| line_at(text, span.start)),
        field,
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
        return with_suggestion(first);
    }
    match first.find("expected ") {
        Some(at) => first[at..].replace("a sequence", r#"a list, such as ["npx", "-y", "server"]"#),
        None if first.contains(['"', '`']) => "this value cannot be used here".to_owned(),
        None => first.to_owned(),
    }
}

/// Replaces the list of all names by the one that is meant, if one is similar.
fn with_suggestion(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    match nearest(unknown, names).first() {
        Some(known) => {
            let (start, _) = message.split_once(',').unwrap_or((message, ""));
            format!("{start}; did you mean `{known}`?")
        }
        None => message.to_owned(),
    }
}

impl ConfigFile {
    fn check(
        self,
        text: &str,
        environment: &Environment<'_>,
        base: Config,
    ) -> Result<Config, ConfigError> {
        let mut config = base;
        config.roles = roles::build(text, &self.roles, &self.principals)?.map(Arc::new);
        let is_bare = self.backends.iter();
        let is_bare = is_bare.map(|(key, entry)| (key.clone(), entry.bare));
        let is_bare = is_bare.collect();
        for (name, entry) in self.views {
            let view = entry.build(text, &name, &is_bare)?;
            config.views.push(Arc::new(view));
        }
        config.approvals = self
            .approvals
            .unwrap_or_default()
            .build(text, environment)?;
        config.pins = config.pins.with(self.pins, self.first_sight);
        for (name, mut entry) in self.backends {
            let at = ["backends", &name];
            let key = BackendKey::parse(&name).map_err(|text| ConfigError::new(&at, text))?;
            entry.timeout = entry.timeout.or(self.timeout);
            entry.start_timeout = entry.start_timeout.or(self.start_timeout);
            entry.pins = entry.pins.or(self.pins);
            entry.first_sight = entry.first_sight.or(self.first_sight);
            config.backends.insert(key, entry.check(at, environment)?);
        }
        config.search_above = self.search_above.or(config.search_above);
        if let Some(events) = self.events {
            events.check(environment, &mut config)?;
        }
        Ok(config)
    }
}

impl BackendEntry {
    /// Checks the lists of names and the tables of tools, which are about the names in the backend's own list.
    fn check_names(&self, name: &str) -> Result<(), ConfigError> {
        if let Some((tool, _)) = self.tools.iter().find(|(_, tool)| tool.is_empty()) {
            let text = "needs `title`, `description` or `effect`";
            return Err(ConfigError::new(&["backends", name, "tools", tool], text));
        }
        let prefix = format!("{name}__");
        for (list, patterns) in [("allow", &self.allow), ("deny", &self.deny)] {
            if let Some(pattern) = patterns.iter().find(|text| text.starts_with(&prefix)) {
                let text = format!(
                    "{pattern:?} matches nothing: the names are those of the backend itself, without `{prefix}`"
                );
                return Err(ConfigError::new(&["backends", name, list], text));
            }
        }
        let mut tools = self.tools.keys();
        if let Some(tool) = tools.find(|tool| tool.starts_with(&prefix)) {
            let text = format!("is the name of the backend itself, without `{prefix}`");
            return Err(ConfigError::new(&["backends", name, "tools", tool], text));
        }
        Ok(())
    }

    /// The limits of concurrent requests and of instances.
    fn limits(&self, name: &str) -> Result<(u32, u32), ConfigError> {
        let wrong = |field: &str, text: &str| {
            let at = ["backends", name, field];
            Err(ConfigError::new(&at, text))
        };
        let max_in_flight = self.max_in_flight.unwrap_or(super::MAX_IN_FLIGHT);
        if max_in_flight == 0 {
            return wrong("max_in_flight", "must be more than 0");
        }
        if self.max_instances.is_some() && self.isolation.is_shared() {
            let text = "needs `isolation = \"principal\"` or `isolation = \"session\"`";
            return wrong("max_instances", text);
        }
        let max_instances = self.max_instances.unwrap_or(match self.isolation {
            Isolation::Unset => super::MAX_INSTANCES_UNSET,
            _ => super::MAX_INSTANCES,
        });
        if max_instances == 0 {
            return wrong("max_instances", "must be more than 0");
        }
        Ok((max_in_flight, max_instances))
    }

    /// Checks the backend at this place of its file.
    pub(super) fn check(
        self,
        at: [&str; 2],
        environment: &Environment<'_>,
    ) -> Result<BackendConfig, ConfigError> {
        let [table, name] = at;
        let wrong = |field: &str, text: &str| ConfigError::new(&[table, name, field], text);
        let idle = self.idle_timeout.map(|ConfigDuration(idle)| idle);
        let (max_in_flight, max_instances) = self.limits(name)?;
        self.check_names(name)?;
        let era = self.protocol;
        let is_shared = self.isolation.is_shared();
        let filter = Filter::new(&self.allow, &self.deny);
        let disabled = self.disabled.then_some(DisabledReason::Configured);
        let check_absent = |fields: &[(&str, bool)], text: &str| {
            let given = fields.iter().find(|(_, is_given)| *is_given);
            given.map_or(Ok(()), |(field, _)| Err(wrong(field, text)))
        };
        let mut reader = FieldReader::new(at, environment);
        reader.allows_link_local = self.allow_link_local;
        let target = match (self.command, self.url) {
            (Some(command), None) => {
                let foreign = [
                    ("transport", self.transport.is_some()),
                    ("headers", self.headers.is_some()),
                    ("forward_headers", !self.forward_headers.is_empty()),
                    ("identity_header", self.identity_header.is_some()),
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
                let of_callers = reader.of_callers(
                    &self.forward_headers,
                    self.identity_header.as_deref(),
                    self.headers.as_ref(),
                )?;
                let files = [self.ca, self.client_cert, self.client_key];
                let remote = Remote {
                    tls: reader.tls(&url, files)?,
                    proxy: reader.proxy(self.proxy)?,
                    oauth: oauth.transpose()?,
                    url,
                    written,
                    transport: transport.transpose()?.unwrap_or_default(),
                    headers: reader.secrets("headers", self.headers)?,
                    token: reader.optional_secret("token", self.token)?,
                    forward_headers: of_callers.0,
                    identity_header: of_callers.1,
                };
                Target::Http(remote)
            }
            (Some(_), Some(_)) => {
                return Err(wrong("url", "must not be combined with `command`"));
            }
            (None, None) => {
                let text = "needs `command`, a program and its arguments, or `url`";
                return Err(ConfigError::new(&at, text));
            }
        };
        Ok(BackendConfig {
            baggage: self.baggage.unwrap_or_else(|| target.is_local()),
            target,
            era,
            filter,
            tools_of_host: Vec::new(),
            bare: self.bare,
            is_alone: false,
            timeout: self.timeout.map(|ConfigDuration(timeout)| timeout),
            start_timeout: self
                .start_timeout
                .map_or(super::START_TIMEOUT, |ConfigDuration(timeout)| timeout),
            idle_timeout: idle,
            max_in_flight,
            isolation: self.isolation,
            questions: self.questions.unwrap_or(true),
            max_instances,
            tools: self.tools,
            pins: PinPolicy::default().with(self.pins, self.first_sight),
            disabled: disabled.or(reader.missing),
        })
    }
}

impl EventsTable {
    fn check(self, environment: &Environment<'_>, config: &mut Config) -> Result<(), ConfigError> {
        let wrong = |field: &str, text: &str| ConfigError::new(&["events", field], text);
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
            return Err(ConfigError::new(&["events"], text));
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

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ApprovalsTable {
    confirm: Patterns,
    approve: Patterns,
    timeout: Option<ConfigDuration<{ 24 * 3_600 }>>,
    webhook: Option<String>,
    allow_own: bool,
}

impl ApprovalsTable {
    pub(super) fn build(
        self,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<ApprovalConfig, ConfigError> {
        let wrong = |problem: String| ConfigError::new(&["approvals", "webhook"], problem);
        let webhook = self.webhook.as_deref().map(|webhook| {
            let url = environment.text(webhook);
            let url = url.map_err(|error| wrong(reason(&error)))?;
            let text = "must start with http:// or https:// and name a host, without a user name or password";
            if mcp_client::Endpoint::new(&url).is_err() {
                return Err(wrong(text.to_owned()));
            }
            Ok(url.to_string())
        });
        let webhook = webhook.transpose()?;
        let rules = |list, patterns| roles::rules(text, &"approvals".into(), list, patterns);
        Ok(ApprovalConfig {
            confirm: rules("confirm", &self.confirm)?,
            approve: rules("approve", &self.approve)?,
            timeout: self.timeout.map_or(
                ApprovalConfig::DEFAULT_TIMEOUT,
                |ConfigDuration(timeout)| timeout,
            ),
            webhook,
            allow_own: self.allow_own,
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuthEntry {
    grant: Grant,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_metadata: Option<String>,
    scope: Option<String>,
    issuer: Option<String>,
    ca: Option<String>,
    redirect_port: Option<u16>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Grant {
    ClientCredentials,
    Login,
}

/// The way in which the gateway gets tokens for a backend. Has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OAuthSettings {
    /// The name of the backend.
    pub(crate) backend: String,
    pub(crate) grant: GrantType,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) client_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) issuer: Option<String>,
    /// The CA of the authorization server.
    pub(crate) tls: TlsFiles,
    pub(crate) redirect_port: u16,
}

impl OAuthEntry {
    pub(super) fn check(
        self,
        backend: &str,
        reader: &mut FieldReader<'_>,
    ) -> Result<OAuthSettings, ConfigError> {
        let wrong = |field: &str, text: &str| {
            Err(ConfigError::new(
                &["backends", backend, "oauth", field],
                text,
            ))
        };
        let grant = match self.grant {
            Grant::ClientCredentials => GrantType::ClientCredentials,
            Grant::Login => GrantType::Login,
        };
        if grant == GrantType::ClientCredentials && self.client_id.is_none() {
            let text = "`client_credentials` needs `client_id` and `client_secret`";
            return wrong("grant", text);
        }
        if grant == GrantType::ClientCredentials && self.client_secret.is_none() {
            let text = "needs `client_secret` with `client_credentials`";
            return wrong("client_id", text);
        }
        if self.client_secret.is_some() && self.client_id.is_none() {
            return wrong("client_secret", "needs `client_id`");
        }
        if self.client_id.is_some() && self.issuer.is_none() {
            let text = "needs `issuer`, the authorization server that knows it: the backend could name another one";
            return wrong("client_id", text);
        }
        let mut text = |text| reader.optional("oauth", text);
        let (client_id, scope) = (text(self.client_id)?, text(self.scope)?);
        let (issuer, document) = (text(self.issuer)?, text(self.client_metadata)?);
        let is_known = reader.missing.is_none();
        let is_secure = |url: &String| url.starts_with("https://");
        let is_url = |url: &String| is_secure(url) || url.starts_with("http://");
        if is_known && !issuer.as_ref().is_none_or(is_url) {
            return wrong("issuer", "must be the URL of an authorization server");
        }
        if is_known && !document.as_ref().is_none_or(is_secure) {
            return wrong("client_metadata", "must be a URL with https://");
        }
        Ok(OAuthSettings {
            backend: backend.to_owned(),
            grant,
            client_id,
            client_secret: reader.optional_secret("oauth", self.client_secret)?,
            client_metadata: document,
            scope,
            issuer,
            tls: reader.tls("https://", [self.ca, None, None])?,
            redirect_port: self.redirect_port.unwrap_or(0),
        })
    }
}

/// The table `[backends.KEY.tools.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolOverride {
    title: Option<String>,
    description: Option<String>,
    effect: Option<EffectName>,
}

impl ToolOverride {
    /// True if roles may allow the tool to more callers without it.
    pub(crate) fn restricts(&self) -> bool {
        self.effect
            .is_some_and(|effect| effect != EffectName::Reads)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The definition of the tool with these texts and this effect.
    pub(crate) fn applied_to(&self, definition: &RawValue) -> Option<Box<RawValue>> {
        let mut members = Members::read(definition.get())?;
        let mut annotations: Map<String, Value> = members
            .get("annotations")
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        if let Some(title) = &self.title {
            members.set("title", &json!(title).to_string());
            annotations.remove("title");
        }
        if let Some(description) = &self.description {
            members.set("description", &json!(description).to_string());
        }
        if let Some(effect) = self.effect {
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint"] {
                annotations.remove(hint);
            }
            if let Value::Object(hints) = effect_of(effect).annotations() {
                annotations.extend(hints);
            }
        }
        if !annotations.is_empty() || members.get("annotations").is_some() {
            members.set("annotations", &Value::Object(annotations).to_string());
        }
        RawValue::from_string(members.encode()).ok()
    }
}

fn effect_of(name: EffectName) -> Effect {
    match name {
        EffectName::Reads => Effect::ReadOnly,
        EffectName::Additive => Effect::Additive,
        EffectName::Idempotent => Effect::Idempotent,
        EffectName::Destructive => Effect::Destructive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader::line_of;

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

    #[test]
    fn texts_and_effect_take_the_place_of_the_tools_own() {
        let own = r#"{"name":"x","title":"X","description":"Own.","inputSchema":{"type":"object"},"annotations":{"title":"A","readOnlyHint":true,"openWorldHint":false}}"#;
        let own = RawValue::from_string(own.to_owned()).unwrap();
        let parse = |text: &str| toml::from_str::<ToolOverride>(text).unwrap();
        let applied = |text: &str| {
            let applied = parse(text).applied_to(&own).unwrap();
            serde_json::from_str::<Value>(applied.get()).unwrap()
        };
        let found = applied("title = \"T\"\ndescription = \"D.\"\neffect = \"idempotent\"");
        assert_eq!(
            found,
            json!({"name": "x", "title": "T", "description": "D.", "inputSchema": {"type": "object"},
                "annotations": {"openWorldHint": false, "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true}})
        );
        assert_eq!(
            applied("description = \"D.\"")["annotations"]["readOnlyHint"],
            true
        );
        assert!(toml::from_str::<ToolOverride>("effect = \"writes\"").is_err());
    }
}
