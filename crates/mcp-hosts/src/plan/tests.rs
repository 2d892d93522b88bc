//! Every host with every state of its file, and any file.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use super::*;
use crate::{Folders, Format, HOSTS, Launch, Server, Token};

mod properties;

/// A folder that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mcp-hosts-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder.canonicalize().unwrap())
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server() -> Server {
    Server {
        name: "docker".to_owned(),
        launch: Launch::Program {
            command: "/opt/mcp/docker-mcp-server".to_owned(),
            args: vec!["--stdio".to_owned()],
            env: vec![(
                "DOCKER_HOST".to_owned(),
                crate::Value::Text("unix:///var/run/docker.sock".to_owned()),
            )],
        },
    }
}

fn own() -> Own {
    Own {
        programs: vec!["docker-mcp-server".to_owned(), "later".to_owned()],
        urls: Vec::new(),
    }
}

/// The hosts that have a file.
fn hosts() -> impl Iterator<Item = &'static Host> {
    HOSTS.iter().filter(|host| host.file.is_some())
}

fn entry(host: &Host) -> Value {
    server().entry(host).unwrap().value
}

/// A file of a host with another server.
fn other(host: &Host, comments: bool, end: &str, mark: &str) -> String {
    let text = match (host.format, comments) {
        (Format::Toml, true) => format!(
            "# mine\nmodel = \"o4\"  # the best\n\n[{}.files]\ncommand = \"files\"\n# last\n",
            host.key
        ),
        (Format::Toml, false) => format!("[{}.files]\ncommand = \"files\"\n", host.key),
        (_, true) => format!(
            "// mine\n{{\n\t\"theme\": \"dark\", // at night\n\t\"{}\": {{\n\t\t\"files\": {{ \"command\": \"files\" }}, // last\n\t}},\n}}\n",
            host.key
        ),
        (_, false) => format!(
            "{{\n    \"b\": 1,\n    \"{}\": {{\n        \"files\": {{\n            \"command\": \"files\"\n        }}\n    }},\n    \"a\": 2\n}}",
            host.key
        ),
    };
    let text = match host.format {
        Format::JsonWithComments => text
            .replace(", //", " //")
            .replace("},\n}", "}\n}")
            .replace("k\" //", "k\", //"),
        _ => text,
    };
    format!("{mark}{}", text.replace('\n', end))
}

#[track_caller]
fn connected(host: &Host, path: &Path) {
    connect(host, path, "docker", &entry(host), &own())
        .unwrap()
        .apply()
        .unwrap();
    let text = fs::read_to_string(path).unwrap();
    let found = edit::entry(host, &text, "docker").unwrap();
    assert_eq!(found, Some(entry(host)), "{}: {text}", host.id);
}

#[test]
fn every_host_takes_every_valid_file_and_gets_it_back() {
    for host in hosts() {
        let mut files = vec![
            None,
            Some(String::new()),
            Some(other(host, false, "\n", "")),
        ];
        files.push(Some(other(host, false, "\r\n", "")));
        files.push(Some(other(host, false, "\n", "\u{feff}")));
        if host.format != Format::Json {
            files.push(Some(other(host, true, "\n", "")));
            files.push(Some(other(host, true, "\r\n", "\u{feff}")));
        }
        for file in files {
            let folder = Temporary::new();
            let path = folder.0.join("file");
            if let Some(file) = &file {
                fs::write(&path, file).unwrap();
            }
            let plan = connect(host, &path, "docker", &entry(host), &own()).unwrap();
            // A dry run writes nothing.
            assert!(plan.diff().contains("docker-mcp-server"), "{}", plan.diff());
            assert_eq!(fs::read_to_string(&path).ok(), file);
            connected(host, &path);
            let once = fs::read_to_string(&path).unwrap();
            let returns = once.matches("\r\n").count();
            let is_windows = file.as_ref().is_some_and(|file| file.contains('\r'));
            let lines = once.matches('\n').count();
            assert_eq!(returns, if is_windows { lines } else { 0 }, "{once}");
            let again = connect(host, &path, "docker", &entry(host), &own()).unwrap();
            assert!(!again.changes() && again.diff().is_empty(), "{}", host.id);
            again.apply().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), once);
            disconnect(host, &path, "docker", &own())
                .unwrap()
                .apply()
                .unwrap();
            assert_eq!(fs::read_to_string(&path).ok(), file, "{}: {once}", host.id);
            assert_eq!(folder.files(), usize::from(file.is_some()));
        }
    }
}

#[test]
fn broken_files_are_refused_with_their_line_and_stay() {
    for host in hosts() {
        let broken = match host.format {
            Format::Toml => "model = \"o4\"\n[mcp_servers\n".to_owned(),
            Format::Json => other(host, true, "\n", ""),
            _ => "{\n  \"a\": 1\n  \"b\": 2\n}".to_owned(),
        };
        let wrong = match host.format {
            Format::Toml => format!("{} = 1\n", host.key),
            _ => format!("{{\"{}\": []}}", host.key),
        };
        for (text, has_line) in [(broken, true), (wrong, false)] {
            let folder = Temporary::new();
            let path = folder.0.join("file");
            fs::write(&path, &text).unwrap();
            let error = connect(host, &path, "docker", &entry(host), &own())
                .err()
                .unwrap();
            assert_eq!(error.line.is_some(), has_line, "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(folder.files(), 1);
        }
    }
}

#[test]
fn file_that_is_no_text_is_refused() {
    let folder = Temporary::new();
    let path = folder.0.join("file");
    fs::write(&path, b"{\"a\": \"\xff\"}").unwrap();
    let error = connect(&HOSTS[0], &path, "docker", &json!({}), &own())
        .err()
        .unwrap();
    assert!(error.to_string().ends_with("is not UTF-8"), "{error}");
}

#[cfg(unix)]
#[test]
fn rights_and_symbolic_links_stay_and_read_only_files_are_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    for host in hosts() {
        let folder = Temporary::new();
        let (path, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&path, other(host, false, "\n", "")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        connected(host, &link);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o640);
        assert_eq!(mode(&folder.0.join("file.bak")), 0o640);
        disconnect(host, &link, "docker", &own())
            .unwrap()
            .apply()
            .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            other(host, false, "\n", "")
        );

        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        let plan = connect(host, &path, "docker", &entry(host), &own()).unwrap();
        let error = plan.apply().unwrap_err();
        assert!(error.reason.starts_with("is read-only"), "{error}");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            other(host, false, "\n", "")
        );
        // A new file may get secrets later.
        let new = folder.0.join("below/new");
        connected(host, &new);
        assert_eq!(mode(&new), 0o600);
    }
    let folder = Temporary::new();
    let link = folder.0.join("link");
    symlink("nowhere", &link).unwrap();
    assert!(connect(&HOSTS[0], &link, "docker", &json!({}), &own()).is_err());
}

#[test]
fn changes_of_others_since_then_are_kept() {
    for host in hosts() {
        let folder = Temporary::new();
        let path = folder.0.join("file");
        fs::write(&path, other(host, false, "\n", "")).unwrap();
        connected(host, &path);
        let second = json!({"command": "later"});
        connect(host, &path, "later", &second, &own())
            .unwrap()
            .apply()
            .unwrap();
        disconnect(host, &path, "docker", &own())
            .unwrap()
            .apply()
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(edit::entry(host, &text, "docker").unwrap(), None);
        assert_eq!(
            edit::entry(host, &text, "later").unwrap(),
            Some(second),
            "{text}"
        );
        disconnect(host, &path, "later", &own())
            .unwrap()
            .apply()
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let before = other(host, false, "\n", "");
        assert_eq!(edit::read(host, &text), edit::read(host, &before));
        assert_eq!(folder.files(), 1);
        let error = disconnect(host, &path, "docker", &own()).err().unwrap();
        assert!(error.reason.contains("has no server"), "{error}");
    }
}

#[test]
fn entry_of_the_user_with_the_same_name_comes_back() {
    for host in hosts() {
        let folder = Temporary::new();
        let path = folder.0.join("file");
        let before = other(host, false, "\n", "").replace("files", "docker");
        fs::write(&path, &before).unwrap();
        connected(host, &path);
        disconnect(host, &path, "docker", &own())
            .unwrap()
            .apply()
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
}

#[test]
fn entries_of_others_stay_with_and_without_a_copy() {
    for host in hosts() {
        let folder = Temporary::new();
        let path = folder.0.join("file");
        let foreign = other(host, false, "\n", "").replace("files", "docker");
        fs::write(&path, &foreign).unwrap();
        let error = disconnect(host, &path, "docker", &own()).err().unwrap();
        assert!(error.reason.contains("was not written"), "{error}");
        // The copy of an entry that was replaced since is no proof.
        fs::write(folder.0.join("file.bak"), "").unwrap();
        let error = disconnect(host, &path, "docker", &own()).err().unwrap();
        assert!(error.reason.contains("was not written"), "{error}");
        fs::remove_file(folder.0.join("file.bak")).unwrap();
        connected(host, &path);
        let copy = fs::read_to_string(folder.0.join("file.bak")).unwrap();
        assert_eq!(copy, foreign);
    }
}

#[test]
fn file_that_two_connects_have_made_goes_again() {
    for host in hosts() {
        let folder = Temporary::new();
        let path = folder.0.join("file");
        connected(host, &path);
        let mut second = entry(host);
        second["args"] = json!(["--stdio", "--read-only"]);
        let plan = connect(host, &path, "docker", &second, &own()).unwrap();
        plan.apply().unwrap();
        disconnect(host, &path, "docker", &own())
            .unwrap()
            .apply()
            .unwrap();
        assert!(!path.exists(), "{}", host.id);
    }
}

#[test]
fn file_that_changes_between_plan_and_write_is_not_overwritten() {
    let (host, folder) = (&HOSTS[0], Temporary::new());
    let path = folder.0.join("file");
    fs::write(&path, "{}").unwrap();
    let plan = connect(host, &path, "docker", &entry(host), &own()).unwrap();
    fs::write(&path, "{\"a\": 1}").unwrap();
    let error = plan.apply().unwrap_err();
    assert!(error.reason.contains("changed meanwhile"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\": 1}");
    assert_eq!(folder.files(), 1);
}

#[test]
fn differences_show_no_secret_of_another_entry() {
    let (host, folder) = (&HOSTS[0], Temporary::new());
    let path = folder.0.join("file");
    let secret = format!("sk-{}", "7".repeat(40));
    let text = json!({"mcpServers": {"x": {"env": {"KEY": secret}}}, "z": {"key": secret}});
    fs::write(&path, text.to_string()).unwrap();
    let plan = connect(host, &path, "docker", &entry(host), &own()).unwrap();
    assert!(!plan.diff().contains(&secret), "{}", plan.diff());
}

#[test]
fn secrets_are_referred_to_or_left_out() {
    let server = |token| Server {
        name: "n8n".to_owned(),
        launch: Launch::Url {
            url: "http://127.0.0.1:3456/mcp".to_owned(),
            token: Some(token),
            bridge: Some("/opt/mcp-gateway".to_owned()),
        },
    };
    for host in hosts() {
        let by_variable = server(Token::Variable("MCP_TOKEN".to_owned()));
        let entry = by_variable.entry(host).unwrap();
        assert_eq!(entry.warnings.len(), 1, "{}: {entry:?}", host.id);
        let by_file = server(Token::File("/run/token".to_owned()));
        let entry = by_file.entry(host).unwrap();
        assert_eq!(entry.warnings, [""; 0], "{}", host.id);
        let args = json!([
            "bridge",
            "http://127.0.0.1:3456/mcp",
            "--token-file",
            "/run/token"
        ]);
        // opencode has them in the command.
        let found = match &entry.value["command"] {
            serde_json::Value::Array(words) => words[1..].into(),
            _ => entry.value["args"].clone(),
        };
        assert_eq!(found, args, "{}", host.id);
    }
}

#[test]
fn folders_of_every_host_are_below_that_of_the_user() {
    let folder = Path::new("/nowhere");
    let folders = Folders::below(folder);
    for host in hosts() {
        let path = host.path(&folders, false).unwrap();
        assert!(path.starts_with(folder.join("home")), "{}", path.display());
        if let Some(path) = host.path(&folders, true) {
            assert!(path.starts_with(folder.join("project")));
        }
    }
}
