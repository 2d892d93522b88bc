//! `doctor`: every problem of the configuration in one go, and the service.

use super::config::head;
use super::{Ended, run};
use crate::harness::{Folder, assert_contains, assert_lacks, binary};
use crate::surface::SERVERS;

/// The findings that make the configuration unusable.
#[track_caller]
fn problems(ended: &Ended) -> Vec<&str> {
    assert_eq!(ended.code, 78, "{}{}", ended.stdout, ended.stderr);
    let lines = ended.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("fail config   "))
        .collect()
}

#[test]
fn every_problem_of_flags_variables_and_file_is_told_at_once() {
    let folder = Folder::new();
    for server in SERVERS {
        let head = head(server);
        let table = if head == "\n" { "" } else { "server." };
        let text = format!("{head}body_limit = true\nread-only = true\n");
        let file = folder.write("wrong.toml", &text);
        let [timeout, profile] = [("MCP_CALL_TIMEOUT", "0"), ("MCP_ERROR_PROFILE", "x")];
        let env = [timeout, ("MCP_SSE", "on"), profile];
        let flags = "--bind 0.0.0.0 --tls-cert c --toolsets nonsense".split(' ');
        let args = ["doctor", "--offline", "--config", &file].into_iter();
        let ended = run(server, &args.chain(flags).collect::<Vec<_>>(), &env);
        let told = problems(&ended).join("\n");
        for expected in [
            format!("{file}:2: {table}body_limit: must be a whole number"),
            format!("{file}:3: {table}read-only: unknown key; did you mean \"read_only\"?"),
            "MCP_CALL_TIMEOUT: 0 is not in 1..=600".to_owned(),
            "MCP_ERROR_PROFILE: must be one of spec, codefluss, extended".to_owned(),
            "--toolsets: there is no toolset \"nonsense\"".to_owned(),
        ] {
            assert_contains(&format!("\n{told}"), &format!("\n{expected}"));
        }
        assert_contains(&ended.stdout, "fail token    --bind 0.0.0.0 allows other");
        assert_contains(&ended.stdout, "fail tls      --tls-cert needs --tls-key");
        // A wrong flag beside those of the file and the variables.
        for wrong in [
            &["--port", "high"][..],
            &["--no-such-flag"],
            &["--rate-limit=-1"],
            &["--stdoi"],
        ] {
            let args = [&["doctor", "--config", &file], wrong].concat();
            let ended = run(server, &args, &env);
            let told = problems(&ended);
            let flag = wrong[0].split('=').next().unwrap();
            assert_contains(told[told.len() - 1], &format!("'{flag}"));
            assert_eq!(told.len(), 5, "{server}: {}", ended.stdout);
        }
    }
}

#[test]
fn usable_configuration_is_told_without_the_service() {
    for server in SERVERS {
        let ended = run(server, &["doctor", "--offline"], &[]);
        assert_eq!(ended.code, 0, "{server}: {}", ended.stdout);
        assert_contains(&ended.stdout, "ok   config   it can be used\n");
        for word in ["fail", "service", "port", "host"] {
            assert_lacks(&ended.stdout, word);
        }
    }
}

#[test]
fn variable_whose_name_is_misspelled_is_told_by_doctor_and_in_the_log() {
    let env = [("MCP_TOKN", "secret-of-sixteen")];
    let sentence = "the variable MCP_TOKN is not read; did you mean MCP_TOKEN?";
    for server in SERVERS {
        let ended = run(server, &["doctor", "--offline"], &env);
        assert_contains(&ended.stdout, &format!("warn config   {sentence}"));
        // Ends at once, after the log was started.
        let started = run(server, &["--token-file", "/nowhere"], &env);
        assert_contains(&started.stderr, sentence);
        for output in [&ended.stdout, &started.stderr] {
            assert_lacks(output, "secret-of");
        }
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
        let offline = [&["doctor", "--offline"], &args[..]].concat();
        let checked = run("mcp-gateway", &offline, &env);
        let code = if expected.is_some() { 78 } else { 0 };
        assert_eq!(checked.code, code, "{args:?}: {}", checked.stdout);
        let Some(expected) = expected else {
            continue;
        };
        assert_contains(&checked.stdout, expected);
        // Nor does it start.
        let started = run("mcp-gateway", &[&["--port", "0"], &args[..]].concat(), &env);
        assert_eq!(started.code, 78, "{args:?}");
        assert!(started.stderr.contains(expected), "{}", started.stderr);
    }
}

#[test]
fn service_that_does_not_answer_fails_unless_offline() {
    for (server, flag, scheme) in [
        ("n8n-mcp-server", "--n8n-url", "http"),
        ("openhands-mcp-server", "--openhands-url", "http"),
        ("docker-mcp-server", "--docker-host", "tcp"),
    ] {
        let url = &format!("{scheme}://127.0.0.1:9");
        let ended = run(server, &["doctor", "--port", "0", flag, url], &[]);
        assert_eq!(ended.code, 1, "{server}: {}", ended.stdout);
        let mut lines = ended.stdout.lines();
        let told = lines.any(|line| line.starts_with("fail service") && line.contains(":9"));
        assert!(told, "{}", ended.stdout);
        let ended = run(server, &["doctor", "--offline", flag, url], &[]);
        assert_eq!(ended.code, 0, "{server}: {}", ended.stdout);
    }
}

#[test]
fn every_problem_of_a_gateway_file_is_told_at_once() {
    let folder = Folder::new();
    let text = "timeout = \"soon\"\n[backends.a]\nurll = \"http://127.0.0.1:9/mcp\"\n[backends.b]\ncommand = [\"x\"]\n\
        timeout = \"0s\"\nenv_pass = [1]\n[backends.c]\nurl = \"ftp://hunter2@x\"\n[roles.r]\ninherits = [\"nobody\"]\n[server]\nprot = 1\n";
    let file = folder.write("gateway.toml", text);
    let args = ["doctor", "--offline", "--config", &file];
    let ended = run("mcp-gateway", &args, &[]);
    let lines = problems(&ended);
    for expected in [
        "1: timeout: ",
        "3: backends.a.urll: unknown field `urll`; did you mean `url`?",
        "6: backends.b.timeout: ",
        "7: backends.b.env_pass[0]: ",
        "9: backends.c.url: ",
        "11: roles.r.inherits",
        "13: server.prot: unknown key",
    ] {
        let expected = format!("{file}:{expected}");
        let is_told = lines.iter().any(|line| line.starts_with(&expected));
        assert!(is_told, "{expected}\n{}", ended.stdout);
    }
    assert_eq!(lines.len(), 7, "{}", ended.stdout);
    assert_lacks(&ended.stdout, "hunter2");
}

#[test]
fn every_backend_is_started_once_and_nothing_is_kept() {
    let folder = Folder::new();
    let program = binary("docker-mcp-server");
    let good = format!("good={} --stdio", program.display());
    let env = [("XDG_STATE_HOME", folder.0.to_str().unwrap())];
    let args = ["doctor", "--port", "0", "--backend", &good];
    let ended = run("mcp-gateway", &args, &env);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert_contains(&ended.stdout, "ok   service  1 of its backends answer\n");
    let (down, none) = ("down=http://127.0.0.1:9/mcp", "none=/nowhere/program");
    let wrong = ["--backend", down, "--backend", none];
    let ended = run("mcp-gateway", &[&args[..], &wrong].concat(), &env);
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    for backend in ["down", "none"] {
        let expected = format!("fail service  backends.{backend}: ");
        assert_contains(&ended.stdout, &expected);
    }
    assert!(!folder.0.join("mcp-gateway").exists());
}

#[test]
fn file_without_a_setting_is_an_error() {
    let folder = Folder::new();
    for text in ["", "\n \t\n", "# [backends.a]\n", "\u{feff}# nothing\n"] {
        let file = folder.write("gateway.toml", text);
        let expected = format!("{file}: is empty. Name the backends in it");
        let args = ["doctor", "--offline", "--config", &file];
        let checked = run("mcp-gateway", &args, &[]);
        assert_contains(&problems(&checked).join("\n"), &expected);
        let started = run("mcp-gateway", &["--config", &file], &[]);
        assert_eq!(started.code, 78, "{text:?}: {}", started.stdout);
        assert_contains(&started.stderr, &expected);
    }
    let file = folder.write("gateway.toml", "backends = {}\n");
    let args = ["doctor", "--offline", "--config", &file];
    let ended = run("mcp-gateway", &args, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
}
