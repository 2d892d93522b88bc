//! Changes of tasks: repositories in repositories, patches, and directories that several tasks share.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;

use super::cancellation::{unique_seconds, wait_until_runs};
use super::tools::Gate;
use super::workspaces::{TestDirectory, git, project, repository};
use super::{
    assert_error, call, call_with_id, client, client_with, directory, parts, run_task,
    wait_for_first_step, wait_for_status, with,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, assert_lacks, wait_until};

#[tokio::test]
async fn nested_repositories_have_changes_of_their_own() {
    let Some(client) = client().await else { return };
    let place = TestDirectory::new();
    repository(&place.0.join("origin"));
    let origin = place.0.join("origin");
    // A repository without a commit must not hide the rest, nor one with a blank at the end of its name.
    let task = format!(
        "RUN: git init -q empty; git init -q 'in '; echo x > 'in /f'; git clone -q {} cl; cd cl; echo two >> f.txt; echo n > n.py; git \
         mv f.txt g.txt; cd ..; echo v > real.py",
        origin.display()
    );
    let run = run_task(&client, &task).await;
    let expected = json!([
        "A real.py",
        "A cl/",
        "R cl/f.txt -> cl/g.txt",
        "A cl/n.py",
        "A empty/",
        "A in /",
        "A in /f"
    ]);
    assert_eq!(run["changed_files"], expected, "{run}");
    let id = &run["task_id"];
    let all = call_with_id(&client, "get_task_changes", id).await;
    assert_contains(&all["diff"], "+++ b/cl/n.py");
    assert_contains(&all["diff"], "+++ b/real.py");
    assert_lacks(&all["diff"].to_string(), "Subproject");
    let one = call!(client, "get_task_changes", {"task_id": id, "file": "cl/n.py"});
    assert_eq!(
        (&one["files"], &one["changed_files"]),
        (&json!(2), &json!(["A cl/", "A cl/n.py"]))
    );
    // The patch of the clone applies to another clone.
    let (whole, repositories) = patch(&client, id, Some("cl"), 500).await;
    assert_eq!(repositories, json!(["empty", "in "]));
    apply(&origin, &whole);
    assert_eq!(
        std::fs::read_to_string(origin.join("g.txt")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(std::fs::read_to_string(origin.join("n.py")).unwrap(), "n\n");
    let absent = json!({"task_id": id, "repository": "none"});
    assert_error(&client, "get_task_patch", absent, "no git repository none").await;
}

#[tokio::test]
async fn changes_in_a_submodule_are_seen() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let (library, project) = (place.0.join("library"), place.0.join("project"));
    repository(&library);
    repository(&project);
    let library = library.to_str().unwrap();
    let file = "protocol.file.allow=always";
    git(
        &project,
        &["-c", file, "submodule", "--quiet", "add", library, "sub"],
    );
    git(&project, &["commit", "-qm", "submodule"]);
    std::fs::write(project.join("sub/mine.txt"), "not the agent's\n").unwrap();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let commit = "git -c user.name=t -c user.email=t@h commit -qam x";
    let task = format!("RUN: cd sub; echo two >> f.txt; {commit}; git push -q origin HEAD:other");
    let run = call!(client, "run_task", {"task": task, "workspace": project});
    assert_eq!(run["changed_files"], json!(["M sub/f.txt"]), "{run}");
    let all = call_with_id(&client, "get_task_changes", &run["task_id"]).await;
    assert_lacks(&all["diff"].to_string(), "Subproject");
}

#[tokio::test]
async fn failing_git_is_no_empty_list_of_changes() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    // The initial state of a new directory is not in it.
    for replaced in ["rm -rf .git", "rm -rf .git; git init -q"] {
        let run = run_task(&client, &format!("RUN: echo x > f; {replaced}")).await;
        assert_eq!(run["changed_files"], json!(["A f"]), "{run}");
        assert_eq!(run["warnings"], Value::Null, "{run}");
    }
    // That of a repository needs its commits.
    let run = async |name: &str, task: &str| {
        let project = place.0.join(name);
        repository(&project);
        call!(client, "run_task", {"task": task, "workspace": project})
    };
    let gone = run("gone", "RUN: echo x > f; rm -rf .git").await;
    assert_eq!(gone["status"], "finished");
    assert_contains(&gone["warnings"], "Changes are not known: git failed");
    let ask = json!({"task_id": gone["task_id"]});
    assert_error(&client, "get_task_changes", ask, "git failed (").await;
    // Nor does git record the state before the task.
    let project = place.0.join("broken");
    repository(&project);
    std::fs::write(project.join(".git/index"), "broken").unwrap();
    let broken =
        json!({"task": "RUN: rm .git/index; git reset -q; echo x > f", "workspace": project});
    let broken = call(&client, "run_task", broken).await;
    assert_eq!(broken["changed_files"], json!(["A f"]), "{broken}");
    assert_contains(&broken["warnings"], "could not be recorded: git failed (");
    assert_contains(&broken["warnings"], "index file");
    let replaced = run("replaced", "RUN: echo x > f; rm -rf .git; git init -q").await;
    let changed = json!(["A f", "A f.txt"]);
    assert_eq!(replaced["changed_files"], changed, "{replaced}");
    assert_contains(&replaced["warnings"], "removed or replaced .git");
}

#[tokio::test]
async fn patch_in_parts_makes_the_same_files() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let lines: String = (0..2_000).map(|line| format!("line {line}\n")).collect();
    let context = json!({"file": "old.txt", "content": lines});
    let task = "RUN: mkdir d; mv old.txt d/new.txt; echo end >> d/new.txt; head -c 20000 \
                /dev/urandom > bin; printf 'a\\r\\nb\\r\\n' > crlf; printf 'caf\\351\\n' > latin; \
                seq 20000 > big; printf 'no end' > last; chmod +x last";
    let run = call!(client, "run_task", {"task": task, "context": context});
    assert_contains(&run["changed_files"], "R old.txt -> d/new.txt");
    let (whole, _) = patch(&client, &run["task_id"], None, 40_000).await;
    let copy = TestDirectory::new();
    std::fs::write(copy.0.join("old.txt"), lines).unwrap();
    apply(&copy.0, &whole);
    let made = directory(&real, &run["task_id"]).await;
    let compared = Command::new("diff")
        .args(["-r", "-x", ".git"])
        .args([&made, &copy.0])
        .output();
    let compared = compared.unwrap();
    assert!(compared.status.success(), "{compared:?}");
    // A patch of other content is not continued.
    let id = &run["task_id"];
    let part = call!(client, "get_task_patch", {"task_id": id, "max_bytes": 500});
    call!(client, "send_message", {"task_id": id, "message": "RUN: seq 600 > n"});
    let next = json!({"task_id": id, "max_bytes": 500, "cursor": part["next_cursor"]});
    assert_error(&client, "get_task_patch", next, "have changed since").await;
}

#[tokio::test]
async fn tasks_in_one_directory_report_their_own_changes_or_a_warning() {
    let Some(client) = client().await else { return };
    let name = format!("shared-{}", Uuid::new_v4());
    let task = |file: &str| json!({"task": format!("RUN: echo x > {file}"), "workspace": name});
    let first = call(&client, "run_task", task("one")).await;
    let second = call(&client, "run_task", task("two")).await;
    assert_eq!(second["changed_files"], json!(["A two"]), "{second}");
    let id = &first["task_id"];
    let seen = call_with_id(&client, "get_task_result", id).await;
    assert_has!(seen, {"changed_files": ["A one"], "warnings": null});
    let (whole, _) = patch(&client, id, None, 500).await;
    assert_contains(&String::from_utf8(whole).unwrap(), "b/one");
    // At the same time.
    let gate = Gate::new();
    let slow = format!("RUN: {}; echo x > three", gate.pass());
    let slow = call!(client, "run_task", {"task": slow, "workspace": name, "wait_seconds": 0});
    wait_for_first_step(&client, &slow["task_id"]).await;
    let quick = call(&client, "run_task", task("four")).await;
    let below = with(task("five"), json!({"workspace": format!("{name}/below")}));
    let below = call(&client, "run_task", below).await;
    for run in [&quick, &below] {
        assert_contains(&run["warnings"], "Another task");
    }
    gate.open();
    wait_for_status(&client, &slow["task_id"], "finished").await;
    for task in [slow, quick, below] {
        let seen = call_with_id(&client, "get_task_result", &task["task_id"]).await;
        assert_contains(&seen["warnings"], "Another task");
    }
    // One that begins later in the directory itself is no reason.
    let last = call(&client, "run_task", task("six")).await;
    assert_has!(last, {"warnings": null, "changed_files": ["A six"]});
}

#[tokio::test]
async fn own_files_are_no_changes() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let given = [
        ("OPENHANDS_WORKSPACE_ROOT", place.path()),
        ("OPENHANDS_MCP_SERVERS", "dead=http://127.0.0.1:9/mcp"),
    ];
    let client = client_with(&real, &given).await;
    let task = "RUN: mkdir -p workspace/bash_events; echo x > workspace/bash_events/1_BashCommand_2; \
                echo x > .openhands-agent-server.log; echo x > made";
    let run = call!(client, "run_task", {"task": task, "workspace": place.path()});
    assert_eq!(run["changed_files"], json!(["A made"]), "{run}");
}

/// A commit of `name` with the content `old`, and then `new`, which has the same size, in the same second.
fn committed_then_edited(name: &str) -> String {
    format!(
        "echo version=1 > {name}; git add {name}; git -c user.name=t -c user.email=t@h commit -qm v; \
         echo version=2 > {name}"
    )
}

#[tokio::test]
async fn every_view_shows_the_newest_content() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let edit = committed_then_edited("v");
    let hide = |flag: &str| format!("git update-index --{flag} f.txt; echo two > f.txt");
    // The commands, the file, what it ends with, and the change.
    for (workspace, commands, file, content, change) in [
        (false, edit.clone(), "v", "version=2\n", "A v"),
        (true, edit.clone(), "v", "version=2\n", "A v"),
        (
            true,
            format!("git init -q in; cd in; {edit}"),
            "in/v",
            "version=2\n",
            "A in/v",
        ),
        (
            true,
            "git sparse-checkout set in; mkdir out; echo two > out/v".to_owned(),
            "out/v",
            "two\n",
            "A out/v",
        ),
        (true, hide("assume-unchanged"), "f.txt", "two\n", "M f.txt"),
        (true, hide("skip-worktree"), "f.txt", "two\n", "M f.txt"),
        (
            true,
            "git config core.ignoreCase true; echo two > F.TXT".to_owned(),
            "F.TXT",
            "two\n",
            "A F.TXT",
        ),
        (
            true,
            "touch -r f.txt t; echo two > f.txt; touch -r t f.txt; rm t".to_owned(),
            "f.txt",
            "two\n",
            "M f.txt",
        ),
    ] {
        let mut task = json!({"task": format!("RUN: {commands}"),
            "verify": format!("grep -qx {} {file}", content.trim_end())});
        if workspace {
            let project = place.0.join(Uuid::new_v4().to_string());
            repository(&project);
            task["workspace"] = json!(project);
        }
        let run = call(&client, "run_task", task).await;
        assert_contains(&run["changed_files"], change);
        assert_has!(run, {"verified": true});
        let id = &run["task_id"];
        let added = format!("+{}", content.trim_end());
        let seen = call!(client, "get_task_changes", {"task_id": id, "file": file});
        assert_contains(&seen["diff"], &added);
        let nested = commands.starts_with("git init").then_some("in");
        let (patch, _) = patch(&client, id, nested, 6_000).await;
        assert_contains(&String::from_utf8(patch).unwrap(), &added);
        let read = call!(client, "get_task_file", {"task_id": id, "file": file});
        assert_eq!(read["text"], content, "{commands}");
    }
}

#[tokio::test]
async fn edit_of_the_user_just_after_a_commit_is_not_the_agents() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    std::fs::write(project.join("v"), "version=1\n").unwrap();
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "v"]);
    std::fs::write(project.join("v"), "version=2\n").unwrap();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    // Git looks at the content as soon as the second is over.
    let task = json!({"task": "RUN: sleep 1.1; git status --short; echo x > new",
        "workspace": project});
    let run = call(&client, "run_task", task).await;
    assert_eq!(run["last_output"], "M v", "{run}");
    assert_eq!(run["changed_files"], json!(["A new"]), "{run}");
}

/// All files below a directory with their sizes and times. Git renews the time of an object that it would write
/// again.
fn listing(directory: &Path) -> String {
    let listed = Command::new("find")
        .arg(directory)
        .args("-path */.git/objects/* -printf".split(' '))
        .args(["%P %y %s %m\\n", "-o", "-printf", "%P %y %s %T@ %m\\n"])
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let mut lines: Vec<_> = listed.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[tokio::test]
async fn reading_a_task_leaves_nothing_behind() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let (project, plain) = (place.0.join("project"), place.0.join("plain"));
    repository(&project);
    let hooked = place.0.join("hooked");
    for hook in ["post-index-change", "reference-transaction"] {
        let hook = project.join(".git/hooks").join(hook);
        std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", hooked.display())).unwrap();
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(&plain).unwrap();
    std::fs::write(plain.join(".env"), "PASSWORD=canary\n").unwrap();
    let ignored = "ignored.bin\n";
    for directory in [&project, &plain] {
        std::fs::write(directory.join(".gitignore"), ignored).unwrap();
        let before = listing(&directory.join(".git"));
        // The first byte is one that the edit below replaces.
        let task = "RUN: (printf a; head -c 24999999 /dev/urandom) | tee model.ckpt > ignored.bin; \
                    echo small > small";
        let run = call!(client, "run_task", {"task": task, "workspace": directory});
        let id = &run["task_id"];
        assert_eq!(run["status"], "finished", "{run}");
        // The agent server itself makes a repository of a plain directory.
        if directory == &project {
            assert_eq!(listing(&directory.join(".git")), before);
        }
        let changed = json!(["A model.ckpt (25 MB)", "A small"]);
        let before = listing(directory);
        let rounds = if directory == &project { 2 } else { 1 };
        for _ in 0..rounds {
            for tool in ["get_task_result", "wait_task", "get_task_changes"] {
                let read = call_with_id(&client, tool, id).await;
                assert_eq!(read["changed_files"], changed, "{read}");
                assert_contains(&read["warnings"], "larger than 20 MB");
            }
            let (patch, _) = patch(&client, id, None, 6_000).await;
            let patch = String::from_utf8(patch).unwrap();
            assert_contains(&patch, "+small");
            assert_lacks(&patch, "model.ckpt");
            assert_eq!(listing(directory), before);
        }
    }
    // The next tasks see what has changed since, also a content of the same size and time.
    let edit = "touch -r model.ckpt t; printf x | dd of=model.ckpt conv=notrunc 2>&1; touch -r t model.ckpt; rm t";
    for (commands, changed) in [
        ("touch model.ckpt; chmod +r model.ckpt", json!(null)),
        (edit, json!(["M model.ckpt (25 MB)"])),
        (
            "echo more >> model.ckpt; mv ignored.bin moved.bin; rm small",
            json!(["M model.ckpt (25 MB)", "A moved.bin (25 MB)", "D small"]),
        ),
    ] {
        let run = call!(client, "run_task", {"task": format!("RUN: {commands}"),
            "workspace": project});
        assert_eq!(run["changed_files"], changed, "{run}");
    }
    assert!(!hooked.exists());
    // No content of the user is in the repository that the agent server makes.
    assert_eq!(
        git(&plain, &["count-objects"]).trim(),
        "0 objects, 0 kilobytes"
    );
}

#[tokio::test]
async fn read_that_takes_too_long_leaves_nothing_behind() {
    let Some(real) = openhands() else { return };
    let (place, project) = project();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACES", place.path())]).await;
    let (seconds, inner) = (unique_seconds(), Uuid::new_v4().to_string());
    let slow = format!(
        "RUN: git init -q {inner}; echo '*.slow filter=slow' > .gitattributes; echo x > x.slow; \
         git config filter.slow.clean 'sleep {seconds}; cat'"
    );
    let run = call!(client, "run_task", {"task": slow, "workspace": project});
    assert_eq!(run["status"], "finished", "{run}");
    let before = listing(&project);
    let ask = json!({"task_id": run["task_id"]});
    assert_error(&client, "get_task_changes", ask, "git took too long").await;
    assert_eq!(listing(&project), before);
    wait_until_runs(&seconds, false).await;
    // The temporary directory of the script, which has a list of the repositories.
    let is_left = || {
        let places = std::env::temp_dir().read_dir().unwrap().flatten();
        let lists = places
            .filter_map(|place| std::fs::read_to_string(place.path().join("repositories")).ok());
        lists.into_iter().any(|list| list.contains(&inner))
    };
    wait_until("the end of the script", async || !is_left()).await;
}

#[tokio::test]
async fn invisible_characters_are_shown_by_number() {
    let Some(client) = client().await else { return };
    let task = "RUN: printf 'a\\342\\200\\256b\\n' > \"$(printf 'x\\342\\200\\256y')\"; printf \
                'p\\342\\200\\256q\\n'";
    let run = run_task(&client, task).await;
    assert_eq!(run["changed_files"], json!(["A x\\u{202e}y"]), "{run}");
    assert_eq!(run["last_output"], "pq");
    let all = call_with_id(&client, "get_task_changes", &run["task_id"]).await;
    assert_contains(&all["diff"], "+a\\u{202e}b");
}

/// Reads a patch in parts. Returns it and the other repositories.
async fn patch(
    client: &mcp_client::Client,
    id: &Value,
    repository: Option<&str>,
    part_bytes: u32,
) -> (Vec<u8>, Value) {
    let mut ask = json!({"task_id": id, "max_bytes": part_bytes});
    if let Some(repository) = repository {
        ask["repository"] = json!(repository);
    }
    let parts = parts(client, "get_task_patch", ask, "cursor").await;
    let bytes = parts.iter().flat_map(|part| {
        let text = part["patch"].as_str().unwrap();
        match part["encoding"].as_str() {
            None => text.as_bytes().to_vec(),
            Some(_) => decoded(text),
        }
    });
    let (whole, last) = (bytes.collect::<Vec<u8>>(), parts.last().unwrap());
    assert_eq!(last["size"], whole.len());
    (whole, last["repositories"].clone())
}

pub(super) fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}

fn apply(at: &Path, patch: &[u8]) {
    let file = at.join(".patch");
    std::fs::write(&file, patch).unwrap();
    let applied = Command::new("git")
        .current_dir(at)
        .args(["apply", ".patch"])
        .output()
        .unwrap();
    assert!(applied.status.success(), "{applied:?}");
    std::fs::remove_file(file).unwrap();
}
