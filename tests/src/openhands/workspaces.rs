//! Workspaces of tasks: directories, files and repositories.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use super::repositories::confirmation;
use super::tools::{Fault, Proxy};
use super::{assert_error, both_transports, call, client, client_with, tool_error, with};
use crate::harness::real::openhands;
use crate::harness::{FakeService, Response, assert_contains, assert_ends_with, assert_lacks};

/// A directory that is deleted after the test. The agent server is on this machine.
pub(super) struct TestDirectory(pub(super) PathBuf);

impl TestDirectory {
    pub(super) fn new() -> Self {
        let place = std::env::temp_dir().join(format!("workspaces-{}", Uuid::new_v4()));
        std::fs::create_dir_all(&place).unwrap();
        Self(place.canonicalize().unwrap())
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asserts what the agent of a task was told after the task itself.
async fn assert_prompt(client: &Client, run: &Value, expected: &str) {
    let messages = json!({"task_id": run["task_id"], "kinds": ["message"]});
    let messages = call(client, "get_task_events", messages).await;
    assert_ends_with(&messages["events"][0]["text"], expected);
}

#[tokio::test]
async fn files_of_the_context_are_not_reported_as_changes() {
    let Some(client) = client().await else { return };
    let context = json!({"file": "a.txt", "content": "1\n", "files": [
        {"file": "sub/b c.txt", "content": "2\n"},
        {"file": "sub/ü.txt", "content": "3\n"},
    ]});
    let task = "RUN: cat a.txt sub/*; echo 4 >> 'sub/b c.txt'; rm a.txt; echo 5 > new";
    let run = call!(client, "run_task", {"task": task, "context": context});
    assert_eq!(run["last_output"], "1\n2\n3", "{run}");
    let changed = json!(["D a.txt", "A new", "M sub/b c.txt"]);
    assert_eq!(run["changed_files"], changed);
    let files = "The files `a.txt`, `sub/b c.txt`, `sub/ü.txt` are in your working directory.";
    assert_prompt(&client, &run, files).await;
    let diff = call!(client, "get_task_changes", {"task_id": run["task_id"],
            "file": "sub/b c.txt"});
    assert_ends_with(&diff["diff"], "@@ -1 +1,2 @@\n 2\n+4\n");
}

#[tokio::test]
async fn file_of_the_context_replaces_no_other_content() {
    let Some(client) = client().await else { return };
    let name = format!("kept-{}", Uuid::new_v4());
    let first =
        call!(client, "run_task", {"task": "RUN: echo mine > 'my notes'", "workspace": name});
    let file = format!("{}/my notes", first["directory"].as_str().unwrap());
    let context = |content: &str| json!({"file": "new", "content": "n", "files": [{"file": "my notes", "content": content}]});
    assert_error!(client, "run_task", {"task": "SAY: x", "workspace": name, "context": context("theirs")},
        "my notes is in workspace with other content");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    assert!(!std::fs::exists(file.replace("my notes", "new")).unwrap());
    let same = call!(client, "run_task", {"task": "RUN: cat 'my notes' new", "workspace": name,
        "context": context("mine\n")});
    assert_eq!(same["last_output"], "mine\nn", "{same}");
}

#[tokio::test]
async fn worktree_of_a_start_that_failed_is_made_by_the_next_call_and_goes_with_the_task() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    std::fs::write(project.join(".gitattributes"), "slow.txt filter=slow\n").unwrap();
    std::fs::write(project.join("slow.txt"), "x\n").unwrap();
    std::fs::create_dir(project.join("d")).unwrap();
    std::fs::write(project.join("d/x"), "x").unwrap();
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "slow"]);
    git(&project, &["config", "filter.slow.smudge", "sleep 60; cat"]);
    let options = [
        ("OPENHANDS_WORKSPACES", place.path()),
        ("OPENHANDS_WORKSPACE_ROOT", place.path()),
    ];
    let client = client_with(&real, &options).await;
    let task = json!({"task": "RUN: cat slow.txt; git log --format=%s -1", "workspace": project,
        "worktree": true, "idempotency_key": Uuid::new_v4().to_string(), "wait_seconds": 55});
    assert_error(&client, "run_task", task.clone(), "git took too long").await;
    assert_lacks(&git(&project, &["worktree", "list"]), "\n/");
    git(&project, &["config", "filter.slow.smudge", "cat"]);
    let failing = with(
        task.clone(),
        json!({"context": {"file": "d", "content": ""}}),
    );
    assert_error(&client, "run_task", failing, "d cannot be written").await;
    git(&project, &["commit", "-q", "--allow-empty", "-m", "newer"]);
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "finished", "last_output": "x\nnewer"});
    let id = &run["task_id"];
    call!(client, "delete_task", {"task_id": id, "confirm": id});
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&project, &["branch", "--list", "task-*"]), "");
}

/// A directory with the repository `project`.
pub(super) fn project() -> (TestDirectory, PathBuf) {
    let place = TestDirectory::new();
    let project = place.0.join("project");
    repository(&project);
    (place, project)
}

/// The worktrees of a repository and the branches of tasks in it.
fn worktrees(project: &Path) -> (usize, usize) {
    let count = |arguments: &[&str]| git(project, arguments).lines().count();
    (
        count(&["worktree", "list"]),
        count(&["branch", "--list", "task-*"]),
    )
}

#[tokio::test]
async fn start_without_a_task_leaves_nothing_in_the_workspace_or_names_it() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (place, project) = project();
    let options = [
        ("OPENHANDS_WORKSPACES", place.path()),
        ("OPENHANDS_WORKSPACE_ROOT", place.path()),
    ];
    let client = client_with(&proxy.real, &options).await;
    let create = "POST /api/conversations HTTP";
    let add = "worktree add";
    for key in [Value::Null, json!(Uuid::new_v4().to_string())] {
        let task = json!({"task": "RUN: echo done", "workspace": project, "worktree": true,
            "idempotency_key": key});
        for (request, fault) in [
            (add, Fault::ResponseLost),
            (add, Fault::Refused(500)),
            (create, Fault::Refused(400)),
        ] {
            proxy.fail(request, fault);
            let error = tool_error(&client, "run_task", task.clone()).await;
            assert_lacks(&error, "may be left");
            assert_eq!(worktrees(&project), (1, 0), "{request} {fault:?}: {error}");
        }
        // It may have arrived.
        proxy.fail(create, Fault::Refused(500));
        let error = tool_error(&client, "run_task", task.clone()).await;
        assert_contains(&error, "If there is no task, the worktree /");
        assert_eq!(worktrees(&project), (2, 1), "{error}");
        if key.is_null() {
            let left = place.0.read_dir().unwrap().flatten();
            let left = left.map(|entry| entry.path());
            let left = left.filter(|path| path.join(".git").is_file());
            let left: Vec<_> = left.collect();
            git(&project, &["worktree", "remove", left[0].to_str().unwrap()]);
            let branch = git(&project, &["branch", "--list", "task-*"]);
            git(&project, &["branch", "-D", branch.trim()]);
            continue;
        }
        // The claim of the start.
        proxy.fail("then mkdir -- ", Fault::ResponseLost);
        assert_error(&client, "run_task", task.clone(), "does not answer").await;
        let run = call(&client, "run_task", task).await;
        assert_has!(run, {"status": "finished", "last_output": "done"});
        assert_eq!(worktrees(&project), (2, 1));
    }
    let task = |content: &str| {
        json!({"task": "RUN: cat sub/new f.txt", "workspace": project, "context":
            {"file": "sub/new", "content": content, "files": [{"file": "f.txt", "content": "one\n"}]}})
    };
    proxy.fail(create, Fault::Refused(400));
    assert_error(&client, "run_task", task("a"), "HTTP 400").await;
    assert!(!project.join("sub/new").exists() && project.join("f.txt").exists());
    let run = call(&client, "run_task", task("b\n")).await;
    assert_has!(run, {"status": "finished", "last_output": "b\none"});
}

#[tokio::test]
async fn calls_with_one_key_at_two_servers_share_the_worktree() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    let options = [("OPENHANDS_WORKSPACES", place.path())];
    let clients = [
        client_with(&real, &options).await,
        client_with(&real, &options).await,
    ];
    for _ in 0..2 {
        let before = worktrees(&project);
        let task = json!({"task": "RUN: echo done", "workspace": project, "worktree": true,
            "idempotency_key": Uuid::new_v4().to_string()});
        let [first, second] = &clients;
        let (a, b, c) = tokio::join!(
            call(first, "run_task", task.clone()),
            call(second, "run_task", task.clone()),
            call(second, "run_task", task.clone()),
        );
        assert_has!(a, {"status": "finished", "last_output": "done"});
        assert_eq!([&b["task_id"], &c["task_id"]], [&a["task_id"]; 2]);
        assert_eq!(worktrees(&project), (before.0 + 1, before.1 + 1));
        let id = &a["task_id"];
        call!(first, "delete_task", {"task_id": id, "confirm": id});
        assert_eq!(worktrees(&project), before);
    }
}

#[tokio::test]
async fn branch_goes_with_the_task_whose_worktree_is_gone() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let commit = "git -c user.name=t -c user.email=t@h commit -q --allow-empty -m pre''cious";
    let task = json!({"task": format!("RUN: {commit}"), "workspace": project, "worktree": true});
    let run = call(&client, "run_task", task).await;
    assert_eq!(run["status"], "finished", "{run}");
    std::fs::remove_dir_all(run["directory"].as_str().unwrap()).unwrap();
    let id = &run["task_id"];
    let question = tool_error!(client, "delete_task", {"task_id": id, "confirm": id});
    assert_contains(&question, "commits that no other branch has");
    assert_contains(&question, "precious");
    let value = confirmation(&question);
    call!(client, "delete_task", {"task_id": id, "confirm": value});
    assert_eq!(worktrees(&project), (1, 0));
}

#[tokio::test]
async fn what_is_left_of_a_worktree_is_asked_about_again_and_a_branch_in_use_stays() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let commit = "git -c user.name=t -c user.email=t@h commit -q --allow-empty -m pre''cious";
    let task = format!("RUN: {commit} && git checkout -q --detach");
    let task = json!({"task": task, "workspace": project, "worktree": true});
    let run = call(&client, "run_task", task).await;
    let (id, branch) = (&run["task_id"], run["branch"].as_str().unwrap());
    git(&project, &["checkout", "-q", branch]);
    let question = tool_error!(client, "delete_task", {"task_id": id});
    assert_lacks(&question, "precious");
    assert_contains(&question, "is checked out elsewhere and stays");
    let value = confirmation(&question);
    let directory = Path::new(run["directory"].as_str().unwrap());
    let info = project.join(".git/info");
    std::fs::create_dir_all(&info).unwrap();
    std::fs::write(info.join("exclude"), "*.log\n").unwrap();
    std::fs::write(directory.join("new.log"), "ignored\n").unwrap();
    let question = tool_error!(client, "delete_task", {"task_id": id, "confirm": value});
    assert_contains(&question, "git ignores are lost: new.log");
    let value = confirmation(&question);
    call!(client, "delete_task", {"task_id": id, "confirm": value});
    assert!(!directory.exists());
    assert_eq!(worktrees(&project), (1, 1));
    assert_contains(&git(&project, &["log", "--format=%s"]), "precious");
}

/// Names that could lead out of the allowed directories.
fn hostile(place: &TestDirectory) -> Vec<String> {
    let relative = "/ // . .. ../x ../../etc a/.. a/../.. a/../../x ./a a/. a/./b a//b ~ ~/x ~root \
                    ~root/.ssh c:/x C:\\x ..\\x a\\..\\b \\\\host\\share .git .git/hooks a/.git \
                    a/.GIT/hooks .mcp-servers/x";
    let absolute = "//etc ///etc/passwd /etc /etc/passwd /etc/../etc /root /home /tmp \
                    /proc/self/cwd /proc/1/root /dev/shm /var/tmp";
    let control = ["", "a\0b", "a\nb", "a\rb", "\u{1b}[2J"];
    let invisible = ["a\u{202e}b", "a\u{200b}b", "\u{feff}a"];
    let (long, longer) = ("x".repeat(256), "x/".repeat(600));
    let names = relative
        .split(' ')
        .chain(absolute.split(' '))
        .chain(control)
        .chain(invisible);
    let names = names
        .chain([&*long, &*longer, "$(id)", "a`id`"])
        .map(str::to_owned);
    // Links are created by the test.
    let below = "/.. /../x -old 2/x /link /link/x /deep/link/x /chain /self /file/x /dangling \
                 /dangling/x /.mcp-principals/a";
    let below = below
        .split(' ')
        .map(|rest| format!("{}{rest}", place.path()));
    names.chain(below).collect()
}

#[tokio::test]
async fn hostile_workspaces_and_files_are_refused() {
    let Some(real) = openhands() else { return };
    let (place, outside) = (TestDirectory::new(), TestDirectory::new());
    std::fs::create_dir_all(place.0.join("deep")).unwrap();
    std::fs::write(place.0.join("file"), "").unwrap();
    symlink(&outside.0, place.0.join("link")).unwrap();
    symlink(&outside.0, place.0.join("deep/link")).unwrap();
    symlink(place.0.join("link"), place.0.join("chain")).unwrap();
    symlink(place.0.join("self"), place.0.join("self")).unwrap();
    symlink(outside.0.join("gone"), place.0.join("dangling")).unwrap();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let names = hostile(&place);
    assert!(names.len() >= 50, "{}", names.len());
    for name in &names {
        let task = json!({"task": "RUN: echo out > out", "workspace": name});
        let refused = tool_error(&client, "run_task", task).await;
        let starts = ["workspace ", "workspace,", "The task's directory"];
        let is_refused = starts.iter().any(|start| refused.starts_with(start));
        assert!(is_refused, "{name:?}: {refused}");
    }
    let task = json!({"task": "SAY: x", "workspace": place.0,
        "context": {"file": "link/evil", "content": "x"}});
    assert_error(&client, "run_task", task, "symbolic link").await;
    let left: Vec<_> = std::fs::read_dir(&outside.0).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // The syntax of the shell in a name is a part of the name.
    for name in ["a; touch x", "a' touch x '", "-rf *"] {
        let run = call!(client, "run_task", {"task": "RUN: pwd", "workspace": place.0.join(name),
            "context": {"file": "$(touch y)'", "content": ""}});
        let expected = place.0.join(name);
        assert_eq!(run["last_output"], expected.to_str().unwrap(), "{run}");
        assert!(!place.0.join("x").exists() && !expected.join("y").exists());
    }
}

pub(super) fn git(at: &Path, arguments: &[&str]) -> String {
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
pub(super) fn repository(at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    git(at, &["init", "-q", "-b", "main"]);
    std::fs::write(at.join("f.txt"), "one\n").unwrap();
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "first"]);
}

/// Serves the files of a bare repository over plain HTTP (the "dumb" protocol of git).
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
async fn repository_and_branch_are_checked_out() {
    let clients = both_transports().await;
    let [over_http, over_stdio] = &clients[..] else {
        return;
    };
    let place = TestDirectory::new();
    let (work, bare) = (place.0.join("work"), place.0.join("r.git"));
    repository(&work);
    git(&work, &["checkout", "-q", "-b", "feature/x"]);
    std::fs::write(work.join("f.txt"), "feature\n").unwrap();
    git(&work, &["commit", "-q", "-a", "-m", "second"]);
    git(&work, &["checkout", "-q", "main"]);
    git(&place.0, &["clone", "-q", "--bare", "work", "r.git"]);
    git(&bare, &["update-server-info"]);
    let served = serve(bare.clone()).await;
    let url = format!("{}/r.git", served.url);
    for (client, branch, content) in [
        (over_http, json!("feature/x"), "feature"),
        (over_stdio, Value::Null, "one"),
    ] {
        let context =
            json!({"repository": url, "branch": branch, "file": "mine.txt", "content": "m"});
        let task = json!({"task": "RUN: cat f.txt mine.txt; echo more >> f.txt",
            "context": context});
        let run = call(client, "run_task", task).await;
        assert_eq!(run["last_output"], format!("{content}\nm"), "{run}");
        assert_eq!(run["changed_files"], json!(["M f.txt"]));
        let named = branch
            .as_str()
            .map_or(String::new(), |branch| format!(" (branch {branch})"));
        let told = format!(
            "Your working directory is a checkout of {url}{named}. The file `mine.txt` is in your working directory."
        );
        assert_prompt(client, &run, &told).await;
        // The machine of the agent fetches what comes later by itself.
        let later = format!("later {content}");
        git(&work, &["commit", "-q", "--allow-empty", "-m", &later]);
        git(&work, &["push", "-q", bare.to_str().unwrap(), "main"]);
        git(&bare, &["update-server-info"]);
        let message = json!({"task_id": run["task_id"], "fetch": true,
            "message": "RUN: git log -1 --format=%s origin/main"});
        let run = call(client, "send_message", message).await;
        assert_has!(run, {"status": "finished", "last_output": later});
    }
}
