//! The configuration file: flags go before variables, and variables before the file, for every option.

use serde_json::Value;

use super::run;
use super::schema::{schema, settings};
use crate::harness::{Folder, Server, assert_contains, assert_lacks};
use crate::surface::{SERVERS, options};

/// A value of an option as it stands in a file, and as `doctor --values` prints it.
fn sample(key: &str, schema: &Value, folder: &Folder) -> (String, String) {
    let text = |text: &str| (format!("\"{text}\""), text.to_owned());
    let list = |text: &str| {
        (
            format!("[\"{}\"]", text.replace(',', "\", \"")),
            text.to_owned(),
        )
    };
    if let Some(values) = schema["enum"].as_array() {
        return text(values[1].as_str().unwrap());
    }
    match (key, schema["type"].as_str()) {
        ("bind", _) => text("127.0.0.2"),
        ("policy", _) => text(&folder.write("policy", "{}")),
        (_, Some("boolean")) => ["true"; 2].map(str::to_owned).into(),
        (_, Some("integer" | "number")) => ["11"; 2].map(str::to_owned).into(),
        (_, Some("string")) => text("http://a.example/x"),
        // A list; a relative path would be read from the folder of the file.
        ("project_dir", _) => list("/srv/a,/srv/b"),
        ("allow" | "deny", _) => list("name=a,name=b"),
        _ => list("tag:a,tag:b"),
    }
}

/// The first line of a file, after which the options of a server begin.
pub(super) fn head(server: &str) -> &'static str {
    match server {
        "mcp-gateway" => "[server]\n",
        _ => "\n",
    }
}

/// The line about an option, which the file sets in its second line.
fn told(
    server: &str,
    (key, value): (&str, &str),
    file: &str,
    flags: &[&str],
    env: &[(&str, &str)],
) -> String {
    let base = ["doctor", "--offline", "--values", "--config", file];
    let ended = run(server, &[&base, flags].concat(), env);
    let mut lines = ended.stdout.lines();
    let line = lines.find(|line| line.starts_with(&format!("{key} = ")));
    let line = line.unwrap_or_else(|| panic!("{server}: no {key}: {}", ended.stderr));
    line.replace("(hidden)", value)
}

#[test]
fn file_sets_every_option() {
    let folder = Folder::new();
    let mut count = 0;
    for server in SERVERS {
        let options = options(server);
        let schema = schema(server);
        for (key, schema) in settings(server, &schema) {
            let flag = format!("--{}", key.replace('_', "-"));
            let is_there = options.iter().any(|option| option["flag"] == flag);
            // The details of issuers have no flag.
            assert!(is_there || key.starts_with("auth_"), "{server}: {flag}");
            let (value, shown) = sample(key, schema, &folder);
            let file = folder.write("config.toml", &format!("{}{key} = {value}\n", head(server)));
            let told = told(server, (key, &shown), &file, &[], &[]);
            assert_eq!(told, format!("{key} = {shown} ({file}:2)"), "{server}");
            count += 1;
        }
    }
    // Those of every server, four times.
    assert!(count > 4 * 25, "{count}");
}

#[test]
fn flags_override_variables_and_variables_override_the_file() {
    let folder = Folder::new();
    for server in SERVERS {
        // What the file, the variable and the flag say.
        for (key, [in_file, by_variable, by_flag], flags) in [
            ("port", ["11", "12", "13"], "--port 13"),
            (
                "bind",
                ["\"127.0.0.1\"", "127.0.0.2", "127.0.0.3"],
                "--bind 127.0.0.3",
            ),
            ("sse", ["true", "false", "true"], "--sse"),
            (
                "toolsets",
                ["[\"all\"]", "default,all", "default"],
                "--toolsets default",
            ),
        ] {
            let text = format!("{}{key} = {in_file}\n", head(server));
            let file = folder.write("config.toml", &text);
            let variable = &*format!("MCP_{}", key.to_uppercase());
            let env = [(variable, by_variable)];
            let flags: Vec<&str> = flags.split(' ').collect();
            for (flags, value, place) in [
                (&[][..], by_variable, variable),
                (&flags, by_flag, flags[0]),
            ] {
                let found = told(server, (key, ""), &file, flags, &env);
                assert_eq!(found, format!("{key} = {value} ({place})"), "{server}");
            }
        }
    }
}

#[tokio::test]
async fn server_is_configured_by_its_file() {
    let folder = Folder::new();
    folder.write("tokens", "ada hunter2-of-ada-lovelace\n");
    let file = folder.write("server.toml", "token = \"file:tokens\"\nread_only = true\n");
    for (args, env) in [
        (vec!["--config", &file], vec![]),
        (vec![], vec![("MCP_CONFIG", &*file)]),
    ] {
        let server = Server::with_args("docker-mcp-server", &args, &env).await;
        for (token, status) in [("hunter2-of-ada-lovelace", 200), ("x", 401)] {
            let headers = [("authorization", &*format!("Bearer {token}"))];
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            assert_eq!(server.post_with(&headers, ping).await.status, status);
        }
    }
}

#[test]
fn details_of_issuers_stand_in_the_file_only() {
    let said = "is set in the configuration file only, by the key auth_jwks";
    for server in SERVERS {
        for (place, args, env) in [
            ("--auth-jwks", &["--auth-jwks", "keys"][..], &[][..]),
            ("MCP_AUTH_JWKS", &[], &[("MCP_AUTH_JWKS", "keys")]),
        ] {
            let ended = run(server, args, env);
            assert_eq!(ended.code, 78, "{server}");
            assert_contains(&ended.stderr, &format!("{server}: {place}: {said}"));
        }
    }
}

#[test]
fn option_that_cannot_be_used_is_a_wrong_configuration() {
    let (wiki, url) = ("wiki=http://127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp");
    for (server, args, told) in [
        (
            "docker-mcp-server",
            &["--toolsets", "nope"][..],
            "--toolsets: there is no toolset \"nope\"",
        ),
        (
            "docker-mcp-server",
            &["--token", "short"],
            "--token (MCP_TOKEN) has a token of fewer than 16 characters",
        ),
        ("docker-mcp-server", &["--log", "=="], "is not a log filter"),
        (
            "mcp-gateway",
            &["--backend", "foo"],
            "must be `NAME=COMMAND`",
        ),
        (
            "mcp-gateway",
            &["--stdio", "--events", "memory", "--view", "x"],
            "--view: there is no view \"x\"; there are none",
        ),
        (
            "mcp-gateway",
            &["login", "x", "--backend", wiki],
            "there is no backend \"x\"; there are: wiki",
        ),
        (
            "mcp-gateway",
            &["login", "wiki", "--backend", wiki],
            "write `token = \"${NAME}\"` or `token = \"file:PATH\"` into [backends.wiki]",
        ),
        (
            "mcp-gateway",
            &["bridge", url, "--token-env", "UNSET"],
            "--token-env: the variable UNSET is not set",
        ),
    ] {
        let ended = run(server, args, &[]);
        assert_eq!(ended.code, 78, "{args:?}: {}", ended.stderr);
        assert_contains(&ended.stderr, told);
    }
}

#[test]
fn file_that_cannot_be_used_stops_the_start_and_shows_no_secret() {
    let folder = Folder::new();
    for server in SERVERS {
        let head = head(server);
        let text = format!(
            "{head}token = \"hunter2-of-16-chars\"\nport = \"hunter2\"\nprot = \"hunter2\"\n"
        );
        let file = folder.write("wrong.toml", &text);
        let ended = run(server, &["--config", &file], &[]);
        assert_eq!(ended.code, 78, "{server}");
        let table = if head == "\n" { "" } else { "server." };
        let expected = [
            format!("{server}: {file}:3: {table}port: must be a whole number\n"),
            format!("{server}: {file}:4: {table}prot: unknown key; did you mean \"port\"?\n"),
        ];
        assert_eq!(ended.stderr, expected.concat());
        let text = format!("{head}token = \"hunter2-of-16-chars\"\nlog = \"info\"\n");
        let file = folder.write("right.toml", &text);
        for command in [
            &["--help"][..],
            &["doctor", "--offline", "--values"],
            &["doctor", "--help"],
            &["man"],
            &["schema"],
        ] {
            let args = [command, &["--config", &file]].concat();
            let has_no_file = matches!(command, ["man" | "schema"]);
            let args = if has_no_file { command } else { &args };
            let ended = run(server, args, &[("MCP_SESSION_KEY", "hunter2")]);
            assert_eq!(ended.code, 0, "{server} {args:?}: {}", ended.stderr);
            assert_lacks(&(ended.stdout + &ended.stderr), "hunter2");
        }
    }
}

#[test]
fn blank_variable_counts_as_unset_for_every_option() {
    for server in SERVERS {
        let options = options(server);
        let variables = options.iter().map(|option| option["env"].as_str().unwrap());
        let variables: Vec<_> = variables.collect();
        let args = ["doctor", "--offline", "--values"];
        let unset = run(server, &args, &[]);
        assert_eq!(unset.code, 0, "{server}: {}", unset.stderr);
        for blank in ["", " \t"] {
            for variable in &variables {
                let ended = run(server, &args, &[(*variable, blank)]);
                let text = format!("{server}: {variable}={blank:?}: {}", ended.stderr);
                assert_eq!((ended.code, &ended.stdout), (0, &unset.stdout), "{text}");
            }
            let all: Vec<_> = variables.iter().map(|name| (*name, blank)).collect();
            let ended = run(server, &["--print-tools"], &all);
            assert_eq!(ended.code, 0, "{server}: {}", ended.stderr);
        }
    }
}

#[test]
fn unusable_value_of_a_variable_is_told_by_the_name_of_the_variable() {
    for server in SERVERS {
        let by_variable = run(server, &[], &[("MCP_PORT", "abc")]);
        assert_eq!(by_variable.code, 2, "{server}");
        let named = "invalid value 'abc' for 'MCP_PORT (--port <PORT>)'";
        assert_contains(&by_variable.stderr, named);
        let by_flag = run(server, &["--port", "x"], &[("MCP_PORT", "1")]);
        assert_contains(&by_flag.stderr, "for '--port <PORT>'");
        let address = run(server, &["--bind", "here"], &[]);
        assert_contains(&address.stderr, "or localhost");
        let name = run(
            server,
            &["doctor", "--bind", "localhost", "--port", "0"],
            &[],
        );
        assert_contains(&name.stdout, "ok   port     0 is free");
    }
}
