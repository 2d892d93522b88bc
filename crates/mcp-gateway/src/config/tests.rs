//! Tests of configuration files and of the command line.

mod remote;
mod roles;
mod views;
mod watched;

use std::path::{Path, PathBuf};

use mcp_client::EraChoice;

use super::reader::Environment;
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
        pins = "hold"

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

        [backends.trusted]
        url = "https://example.org/mcp"
        baggage = true
        "#,
    );
    assert_eq!(config.search_above, Some(100));
    assert_eq!(config.pins.mode, PinMode::Hold);
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
    let baggage = ["files", "n8n", "codefluss", "trusted"];
    let baggage = baggage.map(|key| backend(&config, key).baggage);
    assert_eq!(baggage, [true, true, false, true]);
    assert_eq!(files.isolation, Isolation::Unset);
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

    assert_eq!(
        files.target.shown(),
        "npx -y server; rm -rf / $(id) ${PORT}"
    );

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

/// Checks the text that is said of each row, whose lines are joined with `\n`; the row after it has a part of the text.
fn assert_said(rows: &str, said: impl Fn(&str) -> String) {
    let mut rows = rows.trim().lines();
    while let Some(text) = rows.next() {
        let expected = rows.next().and_then(|row| row.strip_prefix("=> ")).unwrap();
        let said = said(&text.replace("\\n", "\n"));
        assert!(said.contains(expected), "{text}\n is: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
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
    let twice = r#"{"servers": {"a b": {"command": "1"}, "A-B": {"command": "2"}}}"#;
    let error = parse("mcp.json", twice).err().unwrap().to_string();
    let expected = "mcp.json: servers.A-B: gets the name `a-b`, which another server";
    assert!(error.starts_with(expected), "{error}");
    // What a host leaves out, the gateway leaves out, too.
    for (entry, is_used, expected) in [
        (r#""enabled": false"#, false, "aw"),
        (r#""excludeTools": ["w*"]"#, true, "a"),
        (r#""disabledTools": ["w"]"#, true, "a"),
        (r#""includeTools": ["a"]"#, true, "a"),
        (r#""tools": ["*"]"#, true, "aw"),
        (r#""tools": []"#, true, ""),
        (r#""disabledTools": null, "tools": null"#, true, "aw"),
        (r#""tools": ["*"], "enabledTools": ["w"]"#, true, "w"),
        (r#""disabledTools": ["a"], "excludeTools": ["w"]"#, true, ""),
    ] {
        let text = format!(r#"{{"mcpServers": {{"x": {{"command": "x", {entry}}}}}}}"#);
        let config = parse("mcp.json", &text).unwrap();
        let backend = backend(&config, "x");
        assert_eq!(backend.disabled.is_none(), is_used, "{entry}");
        let allowed = ["a", "w"]
            .into_iter()
            .filter(|name| backend.allows_tool(name));
        assert_eq!(allowed.collect::<String>(), expected, "{entry}");
        assert!(backend.filter.allows("prompt"), "{entry}");
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
        ConfigSource::open(None, cli_backends, Config::default(), None).map(|(config, _)| config)
    };
    let local = open(&[]).unwrap();
    let keys: Vec<_> = local.backends.keys().map(BackendKey::as_str).collect();
    let servers = crate::servers::SERVERS.iter();
    let mut servers: Vec<_> = servers.map(|(service, ..)| *service).collect();
    servers.sort_unstable();
    assert_eq!(keys, servers);
    // A name that changes would rename the tools of users.
    assert!(
        ["docker", "n8n", "openhands"]
            .iter()
            .all(|name| keys.contains(name))
    );
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

#[test]
fn commands_and_addresses_are_shown_as_written_and_without_secrets() {
    for (line, shown) in [
        (r#"command = ["srv", "${TOKEN}"]"#, "srv ${TOKEN}"),
        (r#"command = ["srv", "x${PORT:-abc}"]"#, "srv x${PORT}"),
        (
            r#"url = "https://a.example/s/${TOKEN}/mcp""#,
            "https://a.example/s/${TOKEN}/mcp",
        ),
        (
            r#"url = "https://a.example/mcp?k=${TOKEN}""#,
            "https://a.example/mcp",
        ),
        (
            r#"url = "http://${NONE:-a}:${PORT}/mcp""#,
            "http://${NONE}:${PORT}/mcp",
        ),
        (
            r#"url = "https://a.example/s/NTc0ODY3MzQ5ODU3Mzk0/mcp""#,
            "https://a.example/s/••••/mcp",
        ),
    ] {
        let config = toml(&format!("[backends.x]\n{line}\n"));
        assert_eq!(backend(&config, "x").target.shown(), shown);
    }
}
