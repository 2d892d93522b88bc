//! Every host with every state of its file.

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{Format, HOSTS, Launch, Variable};

/// A folder with a file, which is removed at the end.
struct Temporary(TempDir);

impl Temporary {
    fn new(text: Option<&str>) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        text.inspect(|text| fs::write(folder.file(), text).unwrap());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("file")
    }

    fn text(&self) -> Option<String> {
        fs::read_to_string(self.file()).ok()
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

fn own(entry: &Listed) -> bool {
    matches!(entry.program(), Some("docker-mcp-server" | "later"))
}

/// The hosts that have a file.
fn hosts() -> impl Iterator<Item = &'static Host> {
    HOSTS.iter().filter(|host| host.file.is_some())
}

fn entry(host: &Host) -> Value {
    let socket = "unix:///var/run/docker.sock".to_owned();
    let launch = Launch::Program {
        command: "/opt/mcp/docker-mcp-server".to_owned(),
        args: vec!["--stdio".to_owned()],
        env: vec![("DOCKER_HOST".to_owned(), Variable::Plain(socket))],
    };
    crate::entry(host, "docker", &launch).unwrap().0
}

/// A file of a host with another server.
fn other(host: &Host, comments: bool) -> String {
    let key = host.key;
    match (host.format, comments) {
        (Format::Toml, true) => format!(
            "# mine\nmodel = \"o4\"  # the best\n\n[{key}.files]\ncommand = \"files\"\n# last\n"
        ),
        (Format::Toml, false) => format!("[{key}.files]\ncommand = \"files\"\n"),
        (format, true) => {
            let comma = if format == Format::JsonWithCommas {
                ","
            } else {
                ""
            };
            format!(
                "// mine\n{{\n\t\"theme\": \"dark\", // at night\n\t\"{key}\": {{\n\t\t\"files\": {{ \"command\": \"files\" }}{comma} // last\n\t}}{comma}\n}}\n"
            )
        }
        (_, false) => format!(
            "{{\n    \"b\": 1,\n    \"{key}\": {{\n        \"files\": {{\n            \"command\": \"files\"\n        }}\n    }},\n    \"a\": 2\n}}"
        ),
    }
}

/// Plans to write the entry of `docker`.
fn planned(host: &Host, path: &Path) -> anyhow::Result<Plan> {
    connect(host, path, "docker", &entry(host), &own)
}

#[track_caller]
fn connected(host: &Host, path: &Path, name: &str, entry: &Value) {
    let plan = connect(host, path, name, entry, &own).unwrap();
    plan.apply().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let found = edit::entry(host, &text, name).unwrap();
    assert_eq!(found.as_ref(), Some(entry), "{}: {text}", host.id);
}

#[track_caller]
fn disconnected(host: &Host, path: &Path, name: &str) {
    let plan = disconnect(host, path, name, &own).unwrap();
    plan.apply().unwrap();
}

#[track_caller]
fn refused(result: anyhow::Result<Plan>, text: &str) {
    let error = result.err().expect(text).to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn every_host_takes_every_valid_file_and_gets_it_back() {
    for host in hosts() {
        let plain = other(host, false);
        let mut files = vec![None, Some(String::new()), Some(plain.clone())];
        files.push(Some(plain.replace('\n', "\r\n")));
        files.push(Some(format!("\u{feff}{plain}")));
        files.push(Some("\u{feff}".to_owned()));
        if host.format != Format::Json {
            let comment = if host.format == Format::Toml {
                "#"
            } else {
                "//"
            };
            files.push(Some(format!("{comment} mine\n")));
            files.push(Some(format!("{comment} mine")));
            files.push(Some(other(host, true)));
        }
        for file in files {
            let folder = Temporary::new(file.as_deref());
            let path = folder.file();
            let diff = planned(host, &path).unwrap().diff;
            // A dry run writes nothing.
            assert!(diff.contains("docker-mcp-server"), "{diff}");
            assert_eq!(folder.text(), file);
            connected(host, &path, "docker", &entry(host));
            let once = folder.text().unwrap();
            let has_mark = file.as_ref().is_some_and(|it| it.starts_with('\u{feff}'));
            assert_eq!(once.matches('\u{feff}').count(), usize::from(has_mark));
            if file.as_ref().is_some_and(|file| file.contains('\r')) {
                assert_eq!(once.matches("\r\n").count(), once.matches('\n').count());
            }
            let again = planned(host, &path).unwrap();
            assert!(again.diff.is_empty(), "{}", host.id);
            again.apply().unwrap();
            assert_eq!(folder.text().unwrap(), once);
            disconnected(host, &path, "docker");
            assert_eq!(folder.text(), file, "{}: {once}", host.id);
            assert_eq!(folder.files(), usize::from(file.is_some()));
            // A file that two connects have made goes again, too.
            if file.is_none() {
                let mut second = entry(host);
                second["args"] = json!(["--stdio", "--read-only"]);
                connected(host, &path, "docker", &entry(host));
                connected(host, &path, "docker", &second);
                disconnected(host, &path, "docker");
                assert!(!path.exists(), "{}", host.id);
            }
        }
    }
}

/// The copy may be another program's, or gone.
#[test]
fn undo_without_a_copy_takes_back_what_was_added() {
    for host in hosts() {
        let key = host.key;
        let mut files = vec![other(host, false), other(host, false).replace('\n', "\r\n")];
        if host.format == Format::Toml {
            files.extend([
                "a = 1\n".to_owned(),
                "a = 1\n\n".to_owned(),
                format!("[{key}]\n"),
            ]);
        } else {
            files.extend([
                "{\"b\":2}".to_owned(),
                "\u{feff}{ \"b\" : [1,2], \"a\": {} }\r\n".to_owned(),
                "{\"b\": [\n1,\n2]\n}".to_owned(),
                "{\n  \"b\": 2,\n\n  \"a\": {}\n}\n".to_owned(),
                "{\n\t\"b\":2}\n".to_owned(),
                format!("{{\"{key}\": {{}}, \"b\": 2}}"),
                format!("{{\"b\":2,\"{key}\":{{\"files\":{{\"command\":\"files\"}}}}}}"),
                format!(
                    "{{\n  \"{key}\": {{ \"files\": {{\"command\":\"files\"}} }}, \"b\": 2\n}}"
                ),
            ]);
        }
        if host.format != Format::Json {
            files.push(other(host, true));
        }
        for file in files {
            for foreign in [None, Some("{\"b\": 3}")] {
                let folder = Temporary::new(Some(&file));
                let (path, copy) = (folder.file(), folder.path("file.bak"));
                foreign.inspect(|text| fs::write(&copy, text).unwrap());
                connected(host, &path, "docker", &entry(host));
                let once = folder.text().unwrap();
                if foreign.is_none() {
                    fs::remove_file(&copy).unwrap();
                }
                disconnected(host, &path, "docker");
                assert_eq!(folder.text().unwrap(), file, "{}: {once}", host.id);
                assert_eq!(fs::read_to_string(&copy).ok().as_deref(), foreign);
            }
        }
        let folder = Temporary::new(None);
        fs::write(folder.path("file.bak"), "{\"b\": 3}").unwrap();
        connected(host, &folder.file(), "docker", &entry(host));
        disconnected(host, &folder.file(), "docker");
        assert_eq!(folder.text(), None, "{}", host.id);
    }
}

#[test]
fn files_that_cannot_be_changed_are_refused_with_their_line_and_stay() {
    for host in hosts() {
        let broken = match host.format {
            Format::Toml => "model = \"o4\"\n[mcp_servers\n".to_owned(),
            Format::Json => other(host, true),
            _ => "{\n  \"a\": 1\n  \"b\": 2\n}".to_owned(),
        };
        let wrong = match host.format {
            Format::Toml => format!("{} = 1\n", host.key),
            _ => format!("{{\"{}\": []}}", host.key),
        };
        for (text, told) in [(broken, ": is not valid"), (wrong, "file: `")] {
            let folder = Temporary::new(Some(&text));
            let error = planned(host, &folder.file()).err().unwrap().to_string();
            assert!(error.contains(told), "{error}");
            let (_, rest) = error.split_once("file:").unwrap();
            let has_line = rest.starts_with(char::is_numeric);
            assert_eq!(has_line, told != "file: `", "{error}");
            assert_eq!(folder.text().unwrap(), text);
            assert_eq!(folder.files(), 1);
        }
    }
    let (host, folder) = (&HOSTS[0], Temporary::new(None));
    let path = folder.file();
    fs::write(&path, b"{\"a\": \"\xff\"}").unwrap();
    refused(planned(host, &path), "is not UTF-8");
    // It changes between the plan and the write.
    fs::write(&path, "{}").unwrap();
    let plan = planned(host, &path).unwrap();
    fs::write(&path, "{\"a\": 1}").unwrap();
    let error = plan.apply().unwrap_err().to_string();
    assert!(error.contains("changed meanwhile"), "{error}");
    assert_eq!(folder.text().unwrap(), "{\"a\": 1}");
    assert_eq!(folder.files(), 1);
}

#[cfg(unix)]
#[test]
fn connects_at_the_same_time_lose_nothing() {
    let host = Host::find("cursor").unwrap();
    for (before, file) in [
        (None, "file"),
        (Some(other(host, true)), "file"),
        (None, "new/below/file"),
    ] {
        let folder = Temporary::new(before.as_deref());
        let threads: Vec<_> = (0..8)
            .map(|at| {
                let path = folder.path(file);
                std::thread::spawn(move || {
                    let plan = connect(host, &path, &format!("s{at}"), &entry(host), &own);
                    plan.unwrap().apply().unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        let text = fs::read_to_string(folder.path(file)).unwrap();
        let servers = edit::read(host, &text).unwrap();
        let count = servers[host.key].as_object().unwrap().len();
        assert_eq!(count, 8 + usize::from(before.is_some()));
    }
}

#[cfg(unix)]
#[test]
fn rights_and_symbolic_links_stay_and_read_only_files_are_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for host in hosts() {
        let before = other(host, false);
        let folder = Temporary::new(Some(&before));
        let (path, link) = (folder.file(), folder.path("link"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        connected(host, &link, "docker", &entry(host));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(mode(&path), 0o640);
        assert_eq!(mode(&folder.path("file.bak")), 0o640);
        disconnected(host, &link, "docker");
        assert_eq!(folder.text().unwrap(), before);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        let plan = planned(host, &path).unwrap();
        let error = plan.apply().unwrap_err().to_string();
        assert!(error.contains("is read-only"), "{error}");
        assert_eq!(folder.text().unwrap(), before);
        // A new file may get secrets later.
        let new = folder.path("below/new");
        connected(host, &new, "docker", &entry(host));
        assert_eq!(mode(&new), 0o600);
    }
    let folder = Temporary::new(None);
    symlink("nowhere", folder.file()).unwrap();
    refused(planned(&HOSTS[0], &folder.file()), "is a symbolic link");
}

#[test]
fn changes_and_entries_of_others_are_kept() {
    for host in hosts() {
        let before = other(host, false);
        let folder = Temporary::new(Some(&before));
        let path = folder.file();
        connected(host, &path, "docker", &entry(host));
        let second = json!({"command": "later"});
        connected(host, &path, "later", &second);
        disconnected(host, &path, "docker");
        let text = folder.text().unwrap();
        assert_eq!(edit::entry(host, &text, "docker").unwrap(), None);
        let found = edit::entry(host, &text, "later").unwrap();
        assert_eq!(found, Some(second), "{text}");
        disconnected(host, &path, "later");
        let text = folder.text().unwrap();
        let read = |text| edit::read(host, text).unwrap();
        assert_eq!(read(&text), read(&before));
        assert_eq!(folder.files(), 1);
        refused(disconnect(host, &path, "docker", &own), "has no server");

        // An entry of the user with the same name comes back.
        let before = before.replace("files", "docker");
        fs::write(&path, &before).unwrap();
        refused(disconnect(host, &path, "docker", &own), "was not written");
        // The copy of an entry that was replaced since is no proof.
        fs::write(folder.path("file.bak"), "").unwrap();
        refused(disconnect(host, &path, "docker", &own), "was not written");
        fs::remove_file(folder.path("file.bak")).unwrap();
        connected(host, &path, "docker", &entry(host));
        let copy = fs::read_to_string(folder.path("file.bak")).unwrap();
        assert_eq!(copy, before);
        disconnected(host, &path, "docker");
        assert_eq!(folder.text().unwrap(), before);
    }
}

#[test]
fn differences_show_no_secret_of_another_entry() {
    let host = &HOSTS[0];
    let secret = format!("sk-{}", "7".repeat(40));
    let others = json!({"mcpServers": {"docker": {
        "command": "/opt/mcp/docker-mcp-server", "env": {"KEY": secret, "N": 12},
    }}, "z": {"key": secret}});
    let folder = Temporary::new(Some(&others.to_string()));
    let there = planned(host, &folder.file()).unwrap().diff;
    for line in [
        "-        \"KEY\": \"…\",",
        "       \"command\": \"/opt/mcp/docker-mcp-server\",",
        "+        \"--stdio\"",
    ] {
        assert!(there.contains(line), "{line}: {there}");
    }
    let back = disconnect(host, &folder.file(), "docker", &own)
        .unwrap()
        .diff;
    for diff in [there, back] {
        assert!(!diff.contains(&secret) && !diff.contains("12"), "{diff}");
    }
}
