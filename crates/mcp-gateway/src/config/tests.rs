//! Tests of configuration files and of the command line.

mod watched;

use std::path::PathBuf;

use mcp_client::EraChoice;

use super::expand::Environment;
use super::*;

fn variable(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("s3cret".to_owned()),
        "PORT" => Some("8080".to_owned()),
        _ => None,
    }
}

fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
    let environment = Environment {
        variable: &variable,
        folder: Path::new("/etc/gateway"),
    };
    source::parse(text, name, &environment, Config::default())
}

fn toml(text: &str) -> Config {
    parse("gateway.toml", text).unwrap()
}

fn error(text: &str) -> String {
    parse("gateway.toml", text)
        .map(drop)
        .unwrap_err()
        .to_string()
}

fn backend<'a>(config: &'a Config, key: &str) -> &'a BackendConfig {
    &config.backends[&BackendKey::parse(key).unwrap()]
}

fn child(backend: &BackendConfig) -> &Child {
    match &backend.target {
        Target::Child(child) => child,
        _ => panic!("no child"),
    }
}

#[test]
fn all_fields_of_a_file_are_read() {
    let config = toml(
        r#"
        timeout = "20s"
        start_timeout = 5
        search_above = 100
        tool_changes = "block"

        [events]
        store = "events.db"
        days = 7
        rows = 10_000
        megabytes = 64

        [backends.files]
        command = ["npx", "-y", "server; rm -rf /", "$(id)", "${PORT}"]
        env = { KEY = "${TOKEN}", OTHER = "file:/run/secrets/other", PLAIN = "a" }
        env_pass = ["HTTP_PROXY"]
        cwd = "data"
        idle_timeout = "10m"
        allow = ["read_*"]
        deny = ["*_secret"]

        [backends.n8n]
        url = "http://127.0.0.1:${PORT}/mcp"
        headers = { X-Key = "k" }
        token = "file:token"
        timeout = "1m"
        start_timeout = "2s"
        max_in_flight = 8
        isolation = "session"
        max_instances = 4
        idle_timeout = "5m"

        [backends.codefluss]
        url = "https://example.org/rpc"
        protocol = "rpc"
        token = "${TOKEN}"
        disabled = true
        "#,
    );
    assert_eq!(config.search_above, Some(100));
    assert_eq!(config.tool_changes, ToolChanges::Block);
    let file = PathBuf::from("/etc/gateway/events.db");
    assert!(config.events == events::StoreLocation::File(file));
    assert_eq!(config.retention.age, Duration::from_secs(7 * 86_400));
    assert_eq!(
        (config.retention.rows, config.retention.bytes),
        (10_000, 64 << 20)
    );

    let files = backend(&config, "files");
    assert_eq!(files.timeout, Some(Duration::from_secs(20)));
    assert_eq!(files.start_timeout, Duration::from_secs(5));
    assert_eq!(files.idle_timeout, Some(Duration::from_secs(600)));
    assert_eq!(files.disabled, None);
    assert_eq!(files.max_in_flight, 64);
    let n8n = backend(&config, "n8n");
    assert_eq!((n8n.max_in_flight, n8n.max_instances), (8, 4));
    assert_eq!(n8n.isolation, Isolation::Session);
    assert_eq!(files.isolation, Isolation::Shared);
    assert!(files.filter.allows("read_file") && !files.filter.allows("read_secret"));
    let child = child(files);
    assert_eq!(
        child.argv,
        ["npx", "-y", "server; rm -rf /", "$(id)", "8080"]
    );
    assert_eq!(child.env["KEY"].read().unwrap(), "s3cret");
    assert!(child.env["OTHER"].read().is_err());
    assert_eq!(child.env_pass, ["HTTP_PROXY"]);
    assert_eq!(child.cwd.as_deref(), Some(Path::new("/etc/gateway/data")));

    let n8n = backend(&config, "n8n");
    assert_eq!(n8n.timeout, Some(Duration::from_secs(60)));
    assert_eq!(n8n.start_timeout, Duration::from_secs(2));
    let Target::Http(remote) = &n8n.target else {
        panic!("no remote");
    };
    assert_eq!(remote.url, "http://127.0.0.1:8080/mcp");
    assert_eq!(remote.headers["X-Key"].read().unwrap(), "k");
    let codefluss = backend(&config, "codefluss");
    assert_eq!(codefluss.disabled, Some(DisabledReason::Configured));
    assert!(matches!(&codefluss.target, Target::Http(remote) if remote.token.is_some()));
    assert_eq!(codefluss.era, EraChoice::Unversioned);
}

#[test]
fn missing_variable_disables_one_backend() {
    let config = toml(
        r#"
        [backends.a]
        url = "https://${NOWHERE}/"
        token = "${NOTHING}"
        [backends.b]
        command = ["b"]
        "#,
    );
    let why = DisabledReason::MissingVariable("NOWHERE".to_owned());
    assert_eq!(backend(&config, "a").disabled, Some(why));
    assert_eq!(backend(&config, "b").disabled, None);
}

#[test]
fn link_local_address_is_refused_unless_allowed() {
    for (host, is_refused) in [
        ("169.254.169.254", true),
        ("169.254.0.1:8080", true),
        ("[fe80::1]:80", true),
        ("[::ffff:169.254.169.254]", true),
        ("169.253.0.1", false),
        ("[fec0::1]", false),
        ("127.0.0.1", false),
    ] {
        for is_allowed in [false, true] {
            let config =
                format!("[backends.a]\nurl = \"http://{host}/\"\nallow_link_local = {is_allowed}");
            let config = toml(&config);
            let reason = &backend(&config, "a").disabled;
            let expected = (is_refused && !is_allowed).then_some(DisabledReason::LinkLocal);
            assert_eq!(*reason, expected, "{host} {is_allowed}");
        }
    }
}

/// Parses the file of invalid configurations, each with the start of its error.
fn invalid(cases: &str) -> impl Iterator<Item = (&str, &str)> {
    cases.split("\n---\n").map(|case| {
        let (text, expected) = case.trim_end().split_once("\n=>").unwrap();
        (text, expected.trim_start())
    })
}

#[test]
fn errors_have_line_and_field_but_no_value() {
    for (text, expected) in invalid(include_str!("tests/wrong.toml.txt")) {
        let error = error(text);
        let start = format!("gateway.toml{expected}");
        assert!(error.starts_with(&start), "{text}\n is: {error}");
        let is_safe = !error.contains("s3cret") || text.contains("protocol");
        assert!(is_safe, "{error}");
    }
}

#[test]
fn configurations_of_other_hosts_are_read() {
    let desktop = r#"{
        "globalShortcut": "",
        "mcpServers": {
            "My Files": {"command": "npx", "args": ["-y", "server", "${PORT}"], "env": {"KEY": "${TOKEN}"}},
            "off": {"command": "x", "disabled": true, "autoApprove": ["a"]},
            "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
            "needs": {"url": "https://example.org/", "headers": {"Authorization": "Bearer ${NOTHING}"}}
        }
    }"#;
    let config = parse("claude_desktop_config.json", desktop).unwrap();
    let keys: Vec<_> = config.backends.keys().map(BackendKey::as_str).collect();
    assert_eq!(keys, ["my-files", "needs", "off", "old"]);
    let child = child(backend(&config, "my-files"));
    assert_eq!(child.argv, ["npx", "-y", "server", "8080"]);
    assert_eq!(child.env["KEY"].read().unwrap(), "s3cret");
    let disabled = |key| backend(&config, key).disabled.as_ref().unwrap().to_string();
    assert_eq!(disabled("off"), "disabled by the configuration");
    assert!(matches!(
        &backend(&config, "old").target,
        Target::Http(remote) if remote.transport == RemoteTransport::Sse
    ));
    assert_eq!(
        disabled("needs"),
        "the environment variable NOTHING is not set"
    );

    let vscode = r#"{
        // A comment of the editor.
        "inputs": [],
        "servers": {
            "everything": {"type": "http", "url": "http://127.0.0.1:${env:PORT}/mcp"},
            "local": {"type": "stdio", "command": "server", "args": [], },
        },
    }"#;
    let config = parse("mcp.json", vscode).unwrap();
    let everything = &backend(&config, "everything").target;
    assert!(
        matches!(everything, Target::Http(remote) if remote.url == "http://127.0.0.1:8080/mcp")
    );
    assert!(backend(&config, "local").is_child());
    let twice = r#"{"servers": {
        "a b": {"command": "1"}, "A-B": {"command": "2"}, "x": {"command": "3"}, "x": {"command": "4"}
    }}"#;
    let config = parse("mcp.json", twice).unwrap();
    let commands = ["a-b", "x"].map(|key| self::child(backend(&config, key)).argv.concat());
    assert_eq!(
        commands,
        ["1", "4"],
        "the last of two members, as in all parsers"
    );
    for (key, name, other) in [("a-b-2", "\"A-B\"", "`a-b`"), ("x-2", "\"x\"", "`x`")] {
        let reason = backend(&config, key).disabled.as_ref().unwrap().to_string();
        assert!(
            reason.starts_with(&format!("{name} gets the name {other}")),
            "{reason}"
        );
    }
    let settings = r#"{"editor.x": 1, "mcp": {"servers": {"a": {"command": "a"}}}}"#;
    assert_eq!(parse("settings.json", settings).unwrap().backends.len(), 1);
}

#[test]
fn errors_in_files_of_other_hosts_name_the_field() {
    let error = |text: &str| parse("mcp.json", text).map(drop).unwrap_err().to_string();
    for (text, expected) in invalid(include_str!("tests/wrong.json.txt")) {
        let error = error(text);
        assert!(error.starts_with(expected), "{error}\nnot: {expected}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let deep = format!("{{\"servers\":{}", "[".repeat(1_000_000));
    assert!(error(&deep).starts_with("mcp.json:1: is not a JSON object"));
}

#[test]
fn backends_of_the_command_line_need_no_file() {
    let open = |cli_backends: &[&str]| {
        let cli_backends = cli_backends.iter().map(ToString::to_string).collect();
        ConfigSource::open(None, cli_backends, Config::default(), false).map(|(config, _)| config)
    };
    let local = open(&[]).unwrap();
    let keys: Vec<_> = local.backends.keys().map(BackendKey::as_str).collect();
    assert_eq!(keys, ["docker", "n8n", "openhands"]);
    let config = open(&["a=npx -y server", " b = http://127.0.0.1:1/mcp"]).unwrap();
    assert!(backend(&config, "a").is_child() && !backend(&config, "b").is_child());
    for (cli_backends, expected) in [
        (
            &["npx"][..],
            "--backend: must be `NAME=COMMAND` or `NAME=URL`",
        ),
        (&["A=npx"], "--backend: A: the name of a backend must start"),
        (
            &["a="],
            "--backend: backends.a.command: must name a program",
        ),
        (&["a=b", "a=c"], "--backend: a: is the name of two backends"),
        (&["a='b"], "--backend: a: has a quote that is not closed"),
    ] {
        let error = open(cli_backends).map(drop).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

const ROLES: &str = r#"
    [backends.docker]
    command = ["d"]
    [backends.n8n]
    command = ["n"]

    [roles.reader]
    allow = [
        "docker__*",
        "n8n__get_*",
    ]
    effects = ["reads"]
    [roles.oncall]
    inherits = ["reader"]
    allow = ["docker__restart_container"]
    deny = ["*__prune"]
    own = ["events:all", "gateway_restart"]

    [principals]
    alice = "oncall"
    bob = "none"
    default = "reader"
"#;

#[test]
fn roles_inherit_rules_with_their_effects_and_lines() {
    use mcp_core::server::AccessItem;
    use mcp_core::tool::Effect;

    let roles = toml(ROLES).roles.unwrap();
    let decide = |principal: Option<&str>, name, effect| {
        let effect = Some(effect);
        let item = AccessItem::Tool { name, effect };
        roles.role(principal).decide(item).to_string()
    };
    let read = |principal, name| decide(Some(principal), name, Effect::ReadOnly);
    assert_eq!(
        read("alice", "docker__list_containers"),
        "allowed by line 9: roles.reader.allow: \"docker__*\", if its effect is one of: reads"
    );
    assert_eq!(
        decide(
            Some("alice"),
            "docker__restart_container",
            Effect::Idempotent
        ),
        "allowed by line 15: roles.oncall.allow: \"docker__restart_container\""
    );
    assert_eq!(
        decide(Some("alice"), "docker__kill_container", Effect::Destructive),
        "denied: line 9: roles.reader.allow: \"docker__*\" does not allow the effect destructive"
    );
    assert_eq!(
        read("alice", "docker__prune"),
        "denied by line 16: roles.oncall.deny: \"*__prune\""
    );
    for principal in [None, Some("carol"), Some("default")] {
        assert_eq!(roles.role(principal).name, "reader", "{principal:?}");
    }
    assert_eq!(
        read("bob", "docker__list_containers"),
        "denied: no rule allows it"
    );
    assert_eq!(toml("").roles, None);
}

#[test]
fn faults_of_roles_name_their_line_and_the_nearest_name() {
    let backends = "[backends.docker]\ncommand = [\"d\"]\n";
    for (text, expected) in [
        (
            "[roles.a]\nalow = []",
            "gateway.toml:4: roles.a.alow: unknown field",
        ),
        (
            "[roles.a]\neffects = []\nallow = [\"docker__*\"]",
            "gateway.toml:4: roles.a.effects: must name at least one",
        ),
        (
            "[roles.a]\neffects = [\"read\"]",
            "unknown variant `read`, expected one of `reads`",
        ),
        ("[roles.a]\nown = [\"events\"]", "unknown variant `events`"),
        (
            "[roles.a]\ninherits = [\"b\"]\n[roles.b]\ninherits = [\"a\"]",
            "inherits from itself",
        ),
        (
            "[roles.reader]\n[roles.a]\ninherits = [\"raeder\"]",
            "did you mean \"reader\"?",
        ),
        (
            "[roles.reader]\n[principals]\nx = \"writer\"",
            "gateway.toml:5: principals.x: there is no role \"writer\"; there are: reader, none",
        ),
        ("[principals]\nx = \"none\"", "needs a role"),
        ("[roles.none]", "is a reserved name"),
        (
            "[roles.a]\nallow = [\"docker__x\"]\ndeny = [\"docker__x\"]",
            "\"docker__x\" is in `deny` too",
        ),
    ] {
        let found = error(&format!("{backends}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
    let fault = |text: &str| {
        let config = toml(&format!("{backends}{text}"));
        let (line, problem) = roles::check_backends(config.roles.as_ref().unwrap(), &config)
            .err()
            .unwrap();
        format!("{line}: {}", problem.text)
    };
    for (text, expected) in [
        (
            "[roles.a]\nallow = [\n\"docker__*\",\n\"dokcer__*\"]",
            "6: \"dokcer__*\" matches nothing: names begin with that of a backend and `__`; did you mean \"docker\"?",
        ),
        (
            "[roles.a]\ndeny = [\"prune\"]",
            "4: \"prune\" matches nothing",
        ),
        (
            "[roles.a]\nallow = [\"gateway_status\"]",
            "4: names a tool of the gateway, which `own` allows",
        ),
    ] {
        let found = fault(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let fine = "[roles.a]\nallow = [\"*\", \"doc*\", \"*__list_*\", \"docker__*\", \"docker://logs/*\", \"d?cker__x\"]";
    let config = toml(&format!("{backends}{fine}"));
    assert!(roles::check_backends(config.roles.as_ref().unwrap(), &config).is_ok());
}
