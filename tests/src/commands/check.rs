//! `check`: every problem in one go.

use super::{Folder, run};
use crate::harness::binary;
use crate::surface::SERVERS;

#[test]
fn every_problem_of_flags_variables_and_file_is_told_at_once() {
    let folder = Folder::new();
    for server in SERVERS {
        let table = if server == "mcp-gateway" {
            "server"
        } else {
            ""
        };
        let head = if table.is_empty() {
            "\n".to_owned()
        } else {
            format!("[{table}]\n")
        };
        let file = folder.write(
            "wrong.toml",
            &format!("{head}body_limit = true\nread-only = true\n"),
        );
        let env = [
            ("MCP_CALL_TIMEOUT", "0"),
            ("MCP_SSE", "on"),
            ("MCP_ERROR_PROFILE", "x"),
        ];
        let args = [
            "check",
            "--config",
            &file,
            "--bind",
            "0.0.0.0",
            "--tls-cert",
            "c",
            "--toolsets",
            "nonsense",
            "--port",
            "high",
            "--no-such-flag",
            "value",
            "--rate-limit=-1",
            "--stdoi",
        ];
        let ended = run(server, &args, &env);
        assert_eq!(ended.code, 78, "{server}: {}", ended.stdout);
        let field = |key: &str| {
            [table, key]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(".")
        };
        for expected in [
            format!("{file}:2: {}: must be a whole number", field("body_limit")),
            format!(
                "{file}:3: {}: unknown key; did you mean \"read_only\"?",
                field("read-only")
            ),
            "MCP_CALL_TIMEOUT: 0 is not in 1..=600".to_owned(),
            "MCP_ERROR_PROFILE: must be one of spec, codefluss, extended".to_owned(),
            "--toolsets: there is no toolset \"nonsense\"".to_owned(),
            "--bind 0.0.0.0 allows other machines to connect".to_owned(),
            "--tls-cert needs --tls-key".to_owned(),
            "invalid value 'high' for '--port <PORT>'".to_owned(),
            "unexpected argument '--no-such-flag' found".to_owned(),
            "invalid value '-1' for '--rate-limit".to_owned(),
            "unexpected argument '--stdoi' found".to_owned(),
        ] {
            let expected = format!("{server}: {expected}");
            assert!(
                ended.stderr.lines().any(|line| line.starts_with(&expected)),
                "{expected}\n{}",
                ended.stderr
            );
        }
    }
}

#[test]
fn usable_configuration_is_told_without_the_service() {
    for server in SERVERS {
        let ended = run(server, &["check"], &[]);
        assert_eq!(ended.code, 0, "{server}: {}", ended.stderr);
        assert_eq!(
            ended.stdout,
            format!("{server}: the configuration is usable\n")
        );
        let ended = run(server, &["check", "--port", "x"], &[]);
        assert_eq!(ended.code, 78);
        assert!(
            ended
                .stderr
                .contains("invalid value 'x' for '--port <PORT>'"),
            "{}",
            ended.stderr
        );
    }
}

/// Gateways on one database trust each other by the session key, so that it must not be guessed.
#[test]
fn gateway_on_a_shared_database_needs_a_long_session_key() {
    let (short, long) = ("k".repeat(31), "k".repeat(32));
    let postgres = ["--events", "postgres://x@127.0.0.1:9/x?sslmode=disable"];
    let problem = "--session-key: the processes that serve the same clients trust each other by it";
    for (args, key, expected) in [
        (postgres.to_vec(), None, Some(problem)),
        (postgres.to_vec(), Some(&short), Some(problem)),
        (postgres.to_vec(), Some(&long), None),
        (Vec::new(), Some(&short), None),
        (Vec::new(), None, None),
    ] {
        let env: Vec<_> = key
            .iter()
            .map(|key| ("MCP_SESSION_KEY", key.as_str()))
            .collect();
        let checked = run("mcp-gateway", &[&["check"], &args[..]].concat(), &env);
        let code = if expected.is_some() { 78 } else { 0 };
        assert_eq!(checked.code, code, "{args:?}: {}", checked.stderr);
        let Some(expected) = expected else {
            continue;
        };
        assert!(checked.stderr.contains(expected), "{}", checked.stderr);
        // Nor does it start.
        let started = run("mcp-gateway", &[&["--port", "0"], &args[..]].concat(), &env);
        assert_eq!(started.code, 1, "{args:?}");
        assert!(started.stderr.contains(expected), "{}", started.stderr);
    }
}

#[test]
fn service_that_does_not_answer_is_a_problem_online() {
    for (server, flag, url) in [
        ("n8n-mcp-server", "--n8n-url", "http://127.0.0.1:9"),
        (
            "openhands-mcp-server",
            "--openhands-url",
            "http://127.0.0.1:9",
        ),
        ("docker-mcp-server", "--docker-host", "tcp://127.0.0.1:9"),
    ] {
        let ended = run(server, &["check", "--online", flag, url], &[]);
        assert_eq!(ended.code, 78, "{server}: {}", ended.stdout);
        assert!(
            ended.stderr.starts_with(&format!("{server}: "))
                && ended.stderr.contains("127.0.0.1:9"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn every_problem_of_a_gateway_file_is_told_at_once() {
    let folder = Folder::new();
    let text = "timeout = \"soon\"\n[backends.a]\nurll = \"http://127.0.0.1:9/mcp\"\n[backends.b]\ncommand = [\"x\"]\n\
        timeout = \"0s\"\nenv_pass = [1]\n[backends.c]\nurl = \"ftp://hunter2@x\"\n[roles.r]\ninherits = [\"nobody\"]\n[server]\nprot = 1\n";
    let file = folder.write("gateway.toml", text);
    let ended = run("mcp-gateway", &["check", "--config", &file], &[]);
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    let lines: Vec<_> = ended.stderr.lines().collect();
    for expected in [
        "1: timeout: ",
        "3: backends.a.urll: unknown field",
        "6: backends.b.timeout: ",
        "7: backends.b.env_pass[0]: ",
        "9: backends.c.url: ",
        "11: roles.r.inherits",
        "13: server.prot: unknown key",
    ] {
        let expected = format!("mcp-gateway: {file}:{expected}");
        let is_told = lines.iter().any(|line| line.starts_with(&expected));
        assert!(is_told, "{expected}\n{}", ended.stderr);
    }
    assert_eq!(lines.len(), 7, "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2"));
}

#[test]
fn every_backend_is_asked_online_and_nothing_is_kept() {
    let folder = Folder::new();
    let program = binary("docker-mcp-server");
    let good = format!("good={} --stdio", program.display());
    let env = [("XDG_STATE_HOME", folder.0.to_str().unwrap())];
    let args = ["check", "--online", "--backend", &good];
    let ended = run("mcp-gateway", &args, &env);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(
        ended.stdout,
        "mcp-gateway: the configuration is usable; 1 of its backends answer\n"
    );
    let wrong = [
        "--backend",
        "down=http://127.0.0.1:9/mcp",
        "--backend",
        "none=/nowhere/program",
    ];
    let ended = run("mcp-gateway", &[&args[..], &wrong].concat(), &env);
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    for backend in ["down", "none"] {
        let expected = format!("mcp-gateway: backends.{backend}: ");
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
    assert!(!folder.0.join("mcp-gateway").exists());
}

#[test]
fn file_without_a_setting_is_an_error() {
    let folder = Folder::new();
    for text in ["", "\n \t\n", "# [backends.a]\n", "\u{feff}# nothing\n"] {
        let file = folder.write("gateway.toml", text);
        for (args, code) in [(&["check", "--config"][..], 78), (&["--config"], 1)] {
            let ended = run("mcp-gateway", &[args, &[&file]].concat(), &[]);
            assert_eq!(ended.code, code, "{text:?}: {}", ended.stdout);
            let expected = format!("{file}: is empty. Name the backends in it");
            assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
        }
    }
    let file = folder.write("gateway.toml", "backends = {}\n");
    let ended = run("mcp-gateway", &["check", "--config", &file], &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}
