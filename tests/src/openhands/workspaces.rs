//! Where tasks work, and what is put there.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both, call, client, env_with, refusal, refuses};
use crate::harness::real::openhands;
use crate::harness::{FakeService, Response, stdio_client};

/// A directory that ends with the test; the agent server is on this machine.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let place = std::env::temp_dir().join(format!("workspaces-{}", Uuid::new_v4()));
        std::fs::create_dir_all(&place).unwrap();
        Self(place.canonicalize().unwrap())
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn several_files_are_there_and_only_changes_are_reported() {
    for client in both().await {
        let context = json!({"file": "a.txt", "content": "1\n", "files": [
            {"file": "sub/b c.txt", "content": "2\n"},
            {"file": "sub/ü.txt", "content": "3\n"},
        ]});
        let task = "RUN: cat a.txt sub/*; echo 4 >> 'sub/b c.txt'; rm a.txt; echo 5 > new";
        let run = call!(client, "run_task", {"task": task, "context": context});
        assert_eq!(run["last_output"], "1\n2\n3", "{run}");
        let changed = json!(["D a.txt", "A new", "M sub/b c.txt"]);
        assert_eq!(run["changed_files"], changed);
        let diff = json!({"task_id": run["task_id"], "file": "sub/b c.txt"});
        let diff = call(&client, "get_task_changes", diff).await;
        let text = diff["diff"].as_str().unwrap();
        assert!(text.ends_with("@@ -1 +1,2 @@\n 2\n+4\n"), "{text}");
    }
}

#[tokio::test]
async fn a_named_workspace_is_worked_in_again() {
    let Some(client) = client().await else { return };
    let name = format!("project-{}", Uuid::new_v4());
    let first = call!(client, "run_task", {"task": "RUN: echo first > log", "workspace": name});
    assert_eq!(first["changed_files"], json!(["A log"]), "{first}");
    let task = json!({"task": "RUN: cat log; echo second >> log", "workspace": name});
    let second = call(&client, "run_task", task).await;
    assert_eq!(second["last_output"], "first");
    // Since this task began.
    assert_eq!(second["changed_files"], json!(["M log"]), "{second}");
}

#[tokio::test]
async fn an_allowed_directory_is_worked_in_and_its_repository_respected() {
    let Some(real) = openhands() else { return };
    let place = Place::new();
    let project = place.0.join("project");
    repository(&project);
    std::fs::write(project.join("f.txt"), "not committed\n").unwrap();
    let client = stdio_client(
        NAME,
        &env_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]),
    )
    .await;
    let task = json!({"task": "RUN: pwd; git log --oneline | wc -l; echo x > made",
        "workspace": project});
    let run = call(&client, "run_task", task).await;
    let expected = format!("{}\n1", project.display());
    assert_eq!(run["last_output"], expected, "{run}");
    // What was there before is not the agent's work.
    assert_eq!(run["changed_files"], json!(["A made"]), "{run}");
    let staged = git(&project, &["diff", "--cached", "--name-only"]);
    assert_eq!(staged, "", "nothing is staged behind its back");
}

/// Names that must lead nowhere else, whatever is there.
fn hostile(place: &Place) -> Vec<String> {
    let root = place.path();
    let mut names: Vec<String> = [
        "",
        "/",
        "//",
        ".",
        "..",
        "../x",
        "../../etc",
        "a/..",
        "a/../..",
        "a/../../x",
        "./a",
        "a/.",
        "a/./b",
        "a//b",
        "//etc",
        "///etc/passwd",
        "/etc",
        "/etc/passwd",
        "/etc/../etc",
        "/root",
        "/home",
        "/tmp",
        "/proc/self/cwd",
        "/proc/1/root",
        "/dev/shm",
        "/var/tmp",
        "~",
        "~/x",
        "~root",
        "~root/.ssh",
        "c:/x",
        "C:\\x",
        "..\\x",
        "a\\..\\b",
        "\\\\host\\share",
        "a\0b",
        "a\nb",
        "a\rb",
        "\u{1b}[2J",
        "a\u{202e}b",
        "a\u{200b}b",
        "\u{feff}a",
        ".git",
        ".git/hooks",
        "a/.git",
        "a/.GIT/hooks",
        "/",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    names.push("x".repeat(256));
    names.push("x/".repeat(600));
    names.extend(
        [
            "/..",
            "/../x",
            "-old",
            "2/x",
            "/link",
            "/link/x",
            "/deep/link/x",
            "/chain",
            "/self",
            "/file/x",
            "/dangling",
            "/dangling/x",
        ]
        .iter()
        .map(|rest| format!("{root}{rest}")),
    );
    names
}

#[tokio::test]
async fn hostile_workspaces_never_leave_the_root() {
    let Some(real) = openhands() else { return };
    let (place, outside) = (Place::new(), Place::new());
    std::fs::create_dir_all(place.0.join("deep")).unwrap();
    std::fs::write(place.0.join("file"), "").unwrap();
    symlink(&outside.0, place.0.join("link")).unwrap();
    symlink(&outside.0, place.0.join("deep/link")).unwrap();
    symlink(place.0.join("link"), place.0.join("chain")).unwrap();
    symlink(place.0.join("self"), place.0.join("self")).unwrap();
    symlink(outside.0.join("gone"), place.0.join("dangling")).unwrap();
    let client = stdio_client(
        NAME,
        &env_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]),
    )
    .await;
    let names = hostile(&place);
    assert!(names.len() >= 50, "{}", names.len());
    for name in &names {
        let task = json!({"task": "RUN: echo out > out", "workspace": name});
        let refused = refusal(&client, "run_task", task).await;
        assert!(
            ["workspace ", "workspace,", "The task's directory"]
                .iter()
                .any(|start| refused.starts_with(start)),
            "{name:?}: {refused}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(&outside.0).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn words_of_a_shell_are_names_like_others() {
    let Some(real) = openhands() else { return };
    let place = Place::new();
    let client = stdio_client(
        NAME,
        &env_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]),
    )
    .await;
    for name in [
        "$(touch x) `touch x`",
        "a; touch x",
        "a' touch x '",
        "-rf *",
    ] {
        let run = call!(client, "run_task", {"task": "RUN: pwd", "workspace": place.0.join(name),
            "context": {"file": "$(touch y)'", "content": ""}});
        let expected = place.0.join(name);
        assert_eq!(run["last_output"], expected.to_str().unwrap(), "{run}");
        assert!(!place.0.join("x").exists() && !expected.join("y").exists());
    }
}

#[tokio::test]
async fn a_file_of_the_context_does_not_follow_a_link() {
    let Some(real) = openhands() else { return };
    let (place, outside) = (Place::new(), Place::new());
    symlink(&outside.0, place.0.join("link")).unwrap();
    let client = stdio_client(
        NAME,
        &env_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]),
    )
    .await;
    let task = json!({"task": "SAY: x", "workspace": place.0,
        "context": {"file": "link/evil", "content": "x"}});
    refuses(&client, "run_task", task, "symbolic link").await;
    assert!(!outside.0.join("evil").exists());
}

fn git(at: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(at)
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with one commit on `main`.
fn repository(at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    git(at, &["init", "-q", "-b", "main"]);
    std::fs::write(at.join("f.txt"), "one\n").unwrap();
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "first"]);
}

/// Serves the files of a bare repository, as the oldest kind of git server does.
async fn serve(bare: PathBuf) -> FakeService {
    FakeService::start(move |request| {
        let path = request.target.split('?').next().unwrap();
        let path = path.trim_start_matches("/r.git/");
        match std::fs::read(bare.join(path)) {
            Ok(bytes) => Response::Http(200, "application/octet-stream", bytes.into()),
            Err(_) => Response::Http(404, "text/plain", Vec::new().into()),
        }
    })
    .await
}

#[tokio::test]
async fn a_repository_and_its_branch_are_checked_out() {
    let clients = both().await;
    let [over_http, over_stdio] = &clients[..] else {
        return;
    };
    let place = Place::new();
    let (work, bare) = (place.0.join("work"), place.0.join("r.git"));
    repository(&work);
    git(&work, &["checkout", "-q", "-b", "feature/x"]);
    std::fs::write(work.join("f.txt"), "feature\n").unwrap();
    git(&work, &["commit", "-q", "-a", "-m", "second"]);
    git(&work, &["checkout", "-q", "main"]);
    git(&place.0, &["clone", "-q", "--bare", "work", "r.git"]);
    git(&bare, &["update-server-info"]);
    let served = serve(bare).await;
    let url = format!("{}/r.git", served.url);
    for (client, branch, content) in [
        (over_http, json!("feature/x"), "feature"),
        (over_stdio, Value::Null, "one"),
    ] {
        let mut context = json!({"repository": url, "file": "mine.txt", "content": "m"});
        if !branch.is_null() {
            context["branch"] = branch;
        }
        let task = json!({"task": "RUN: cat f.txt mine.txt; echo more >> f.txt",
            "context": context, "wait_seconds": 25});
        let run = call(client, "run_task", task).await;
        assert_eq!(run["last_output"], format!("{content}\nm"), "{run}");
        assert_eq!(run["changed_files"], json!(["M f.txt", "A mine.txt"]));
    }
}

#[tokio::test]
async fn a_repository_that_is_not_there_starts_no_agent() {
    let nobody = FakeService::start(|_| Response::Http(404, "text/plain", Vec::new().into())).await;
    let Some(client) = client().await else { return };
    let context = json!({"repository": format!("{}/none.git", nobody.url)});
    let run = call!(client, "run_task", {"task": "RUN: ls", "context": context});
    assert_has!(run, {"status": "failed", "steps": 0});
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("could not be fetched"), "{error}");
}

#[tokio::test]
async fn repositories_that_would_lead_elsewhere_are_refused() {
    let Some(client) = client().await else { return };
    for url in [
        "/etc",
        "file:///etc",
        "ext::sh -c id",
        "https://u:p@h/r",
        "--upload-pack=x",
    ] {
        let task = json!({"task": "SAY: x", "context": {"repository": url}});
        let refused = refusal(&client, "run_task", task).await;
        assert!(refused.starts_with("context.repository"), "{refused}");
    }
    for context in [
        json!({"repository": "https://h/r", "branch": "--upload-pack=x"}),
        json!({"branch": "main"}),
        json!({"content": "x"}),
    ] {
        let refused = refusal!(client, "run_task", {"task": "SAY: x", "context": context});
        assert!(refused.starts_with("context."), "{refused}");
    }
}
