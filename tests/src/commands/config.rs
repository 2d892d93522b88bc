//! The configuration file: flags go before variables, and variables before the file, for every option.

use serde_json::Value;

use super::schema::{schema, settings};
use super::{Folder, run};
use crate::harness::Server;
use crate::surface::{SERVERS, printed};

/// A value as it stands in a file, in a variable and on the command line.
struct Sample {
    file: String,
    env: String,
    flag: Vec<String>,
    /// As `doctor --values` prints that of the file, the variable and the flag.
    printed: [String; 3],
}

fn sample(key: &str, flag: &str, schema: &Value, folder: &Folder) -> Sample {
    let of_texts = |texts: [&str; 3], quote: &str| Sample {
        file: format!("{quote}{}{quote}", texts[0]),
        env: texts[1].to_owned(),
        flag: vec![flag.to_owned(), texts[2].to_owned()],
        printed: texts.map(str::to_owned),
    };
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| value.as_str().unwrap()).collect();
        return of_texts([values[0], values[1], values[2]], "\"");
    }
    match (key, schema["type"].as_str()) {
        ("bind", _) => of_texts(["127.0.0.1", "127.0.0.2", "127.0.0.3"], "\""),
        ("policy", _) => {
            let files = ["a", "b", "c"].map(|name| folder.write(name, "{}"));
            of_texts([&*files[0], &*files[1], &*files[2]], "\"")
        }
        (_, Some("boolean")) => Sample {
            file: "true".to_owned(),
            env: "false".to_owned(),
            flag: vec![flag.to_owned()],
            printed: ["true", "false", "true"].map(str::to_owned),
        },
        (_, Some("integer" | "number")) => of_texts(["11", "12", "13"], ""),
        (_, Some("string")) => of_texts(
            [
                "http://a.example/x",
                "http://b.example/x",
                "http://c.example/x",
            ],
            "\"",
        ),
        // A list; a relative path would be read from the folder of the file.
        ("project_dir", _) => Sample {
            file: "[\"/srv/a\", \"/srv/b\"]".to_owned(),
            printed: ["/srv/a,/srv/b", "/srv/c", "/srv/d"].map(str::to_owned),
            ..of_texts(["", "/srv/c", "/srv/d"], "")
        },
        _ => Sample {
            file: "[\"tag:a\", \"tag:b\"]".to_owned(),
            printed: ["tag:a,tag:b", "tag:c,tag:d", "tag:e"].map(str::to_owned),
            ..of_texts(["", "tag:c,tag:d", "tag:e"], "")
        },
    }
}

#[test]
fn flags_override_variables_and_variables_override_the_file_for_every_option() {
    let folder = Folder::new();
    let mut count = 0;
    for server in SERVERS {
        let options: Vec<Value> =
            serde_json::from_str(&printed(server, "--print-options")).unwrap();
        let schema = schema(server);
        let table = settings(server, &schema);
        for (key, schema) in table {
            let option = options.iter().find(|option| {
                option["flag"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches('-')
                    .replace('-', "_")
                    == *key
            });
            let option = option.unwrap_or_else(|| panic!("{server}: no option for {key}"));
            let (flag, variable) = (
                option["flag"].as_str().unwrap(),
                option["env"].as_str().unwrap(),
            );
            let sample = sample(key, flag, schema, &folder);
            let head = if server == "mcp-gateway" {
                "[server]\n"
            } else {
                "\n"
            };
            let file = folder.write("config.toml", &format!("{head}{key} = {}\n", sample.file));
            let base = ["doctor", "--offline", "--values", "--config", &file];
            let with_flag: Vec<&str> = base
                .into_iter()
                .chain(sample.flag.iter().map(|part| &**part))
                .collect();
            let env: [(&str, &str); 1] = [(variable, &sample.env)];
            let place = format!("{file}:2");
            for (at, (args, env, source)) in [
                (&base[..], &[][..], &*place),
                (&base[..], &env[..], variable),
                (&with_flag[..], &env[..], flag),
            ]
            .into_iter()
            .enumerate()
            {
                let ended = run(server, args, env);
                let line = ended
                    .stdout
                    .lines()
                    .find(|line| line.starts_with(&format!("{key} = ")));
                let visible = format!("{key} = {} ({source})", sample.printed[at]);
                let hidden = format!("{key} = (hidden) ({source})");
                let is_expected = line.is_some_and(|line| line == visible || line == hidden);
                assert!(
                    is_expected,
                    "{server}: {visible}: {line:?}\n{}",
                    ended.stderr
                );
            }
            count += 1;
        }
    }
    eprintln!("{count} options");
    // Those of every server, four times.
    assert!(count > 4 * 25);
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
fn file_that_cannot_be_used_stops_the_start_and_shows_no_secret() {
    let folder = Folder::new();
    for server in SERVERS {
        let head = if server == "mcp-gateway" {
            "[server]\n"
        } else {
            "\n"
        };
        let text = format!(
            "{head}token = \"hunter2-of-16-chars\"\nport = \"hunter2\"\nprot = \"hunter2\"\n"
        );
        let file = folder.write("wrong.toml", &text);
        let ended = run(server, &["--config", &file], &[]);
        assert_eq!(ended.code, 78, "{server}");
        let table = if server == "mcp-gateway" {
            "server."
        } else {
            ""
        };
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
            let args = if command.len() == 1 && command[0] != "--help" {
                command
            } else {
                &args
            };
            let ended = run(server, args, &[("MCP_SESSION_KEY", "hunter2")]);
            assert_eq!(ended.code, 0, "{server} {args:?}: {}", ended.stderr);
            assert!(
                !(ended.stdout + &ended.stderr).contains("hunter2"),
                "{server} {args:?}"
            );
        }
    }
}

#[test]
fn blank_variable_counts_as_unset_for_every_option() {
    for server in SERVERS {
        let options: Vec<Value> =
            serde_json::from_str(&printed(server, "--print-options")).unwrap();
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
