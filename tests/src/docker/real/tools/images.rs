//! Images: looked at, built, pulled, named, removed.

use std::fs;

use serde_json::{Value, json};

use super::super::super::lab::Lab;
use super::talk::Talk;
use super::{confirmed, fail, lab, lab_with, registry, succeed, texts};
use crate::harness::{assert_contains, assert_lacks, assert_starts_with, real, wait_until};

#[tokio::test]
async fn images_are_listed_and_inspected() {
    let Some(lab) = lab().await else { return };
    let listed = succeed(&lab, "list_images", json!({"name": "BUSYBOX"})).await;
    let row = &listed["images"][0];
    assert!(texts(&row["tags"]).contains(&"busybox:test"), "{listed}");
    assert!(row["size_bytes"].as_i64().unwrap() > 1_000_000);
    let image = succeed(&lab, "get_image", json!({"image": "busybox:test"})).await;
    assert_eq!((&image["id"], &image["user"]), (&row["id"], &json!("root")));
    assert!(!image["history"].as_array().unwrap().is_empty());
    let by_id = succeed(&lab, "get_image", json!({"image": row["id"]})).await;
    assert_eq!(by_id["tags"], image["tags"]);
    let missing = fail(&lab, "get_image", json!({"image": "busybox:tset"})).await;
    assert!(missing.contains("Did you mean `busybox:test`"), "{missing}");
}

#[tokio::test]
async fn an_image_is_built_named_and_removed() {
    let Some(lab) = lab().await else { return };
    let (tag, other) = (
        format!("{}:1", lab.name("app")),
        format!("{}:2", lab.name("app")),
    );
    let dockerfile = "FROM busybox:test\nARG GREETING\nRUN echo $GREETING\nENV API_KEY=canary-9\nCOPY conf/a.txt /a.txt\nUSER 1000";
    let built = succeed!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile,
        "files": {"conf/a.txt": "hello"}, "build_args": {"GREETING": "good-day"}});
    let log = built["log"].as_str().unwrap();
    assert_contains(&log, "good-day");
    assert_lacks(&log, "canary-9");
    let image = succeed(&lab, "get_image", json!({"image": tag})).await;
    assert_eq!(
        (&image["id"], &image["user"]),
        (&built["id"], &json!("1000"))
    );
    assert!(!image.to_string().contains("canary-9"), "{image}");

    succeed!(lab, "tag_image", {"image": tag, "new_name": other});
    let (loss, _) = confirmed(&lab, "remove_image", json!({"image": other}), &other).await;
    assert!(loss.contains("that has others"), "{loss}");
    let (loss, _) = confirmed(&lab, "remove_image", json!({"image": tag}), &tag).await;
    assert!(loss.contains("pulled or built again"), "{loss}");
    fail(&lab, "get_image", json!({"image": tag})).await;
}

#[tokio::test]
async fn a_build_that_fails_shows_its_last_words() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("app"));
    let dockerfile = "FROM busybox:test\nRUN echo no luck; exit 7";
    let failed = fail!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile});
    assert_contains(&failed, "no luck");
    assert_contains(&failed, "code: 7");
    let neither = fail(&lab, "build_image", json!({"tag": tag})).await;
    assert_contains(&neither, "Give dockerfile or directory");
}

#[tokio::test]
async fn a_directory_is_built_only_where_that_is_allowed() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    let (inside, outside) = (dir.join("in"), dir.join("out"));
    for path in [&inside.join("target"), &outside] {
        fs::create_dir_all(path).unwrap();
    }
    fs::write(
        inside.join("Dockerfile"),
        "FROM busybox:test\nCOPY . /all\nRUN find /all\n",
    )
    .unwrap();
    fs::write(inside.join(".dockerignore"), "target\n*.key\n").unwrap();
    fs::write(inside.join("target/big"), "x").unwrap();
    fs::write(inside.join("private.key"), "x").unwrap();
    fs::write(inside.join("main.c"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let Some(lab) = lab_with(&[("DOCKER_MCP_PROJECT_DIR", inside.to_str().unwrap())]).await else {
        return;
    };
    let tag = format!("{}:1", lab.name("app"));
    let build = |path: &str| json!({"tag": tag, "directory": path});
    let built = succeed(&lab, "build_image", build(inside.to_str().unwrap())).await;
    let log = built["log"].as_str().unwrap();
    assert!(log.contains("/all/main.c"), "{log}");
    assert_lacks(&log, "private.key");
    assert_lacks(&log, "/all/target");
    let climbing = format!("{}/../out", inside.display());
    let link = format!("{}/link", inside.display());
    for path in [
        "/",
        "/etc",
        "relative",
        &climbing,
        &link,
        outside.to_str().unwrap(),
    ] {
        let refused = fail(&lab, "build_image", build(path)).await;
        assert!(
            refused.contains("outside") || refused.contains("absolute"),
            "{path}: {refused}"
        );
    }
    succeed!(lab, "remove_image", {"image": tag, "confirm": tag});
    fs::remove_dir_all(&dir).unwrap();
}

/// Everything is left out, but what exceptions take in again: a secret, and the Dockerfile itself, do
/// not reach the engine.
#[tokio::test]
async fn exceptions_of_a_dockerignore_do_not_let_secrets_out() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    for path in ["src/keys", "node_modules/x"] {
        fs::create_dir_all(dir.join(path)).unwrap();
    }
    let ignore = "# all but the source\n*\n!/src/\nsrc/keys/**\n!**/public.key\n";
    for (path, text) in [
        (
            "Dockerfile",
            "FROM busybox:test\nCOPY . /all\nRUN find /all\n",
        ),
        (".dockerignore", ignore),
        (".env", "x"),
        ("node_modules/x/y.js", "x"),
        ("src/main.c", "x"),
        ("src/keys/private.key", "x"),
        ("src/keys/public.key", "x"),
    ] {
        fs::write(dir.join(path), text).unwrap();
    }
    let text = dir.to_str().unwrap();
    let env = [("MCP_TOOLSETS", "all"), ("DOCKER_MCP_PROJECT_DIR", text)];
    for host in real::docker_engines().into_iter().chain(real::podman()) {
        let lab = Lab::at(host, &env).await;
        let tag = format!("localhost/{}:1", lab.name("app"));
        let arguments = json!({"tag": tag, "directory": text, "no_cache": true});
        let built = succeed(&lab.server, "build_image", arguments).await;
        let log = built["log"].as_str().unwrap();
        for sent in ["/all/src/main.c", "/all/src/keys/public.key"] {
            assert!(log.contains(sent), "{sent}: {log}");
        }
        for kept in [".env", "node_modules", "private.key", "/all/Dockerfile"] {
            assert!(!log.contains(kept), "{kept}: {log}");
        }
        let arguments = json!({"image": tag, "confirm": tag});
        succeed(&lab.server, "remove_image", arguments).await;
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn an_image_is_pulled_with_progress() {
    let Some(mut lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&mut lab, "0.05").await);
    let mut talk = Talk::open(&lab.host, &[]).await;
    let id = talk.start("pull_image", json!({"image": image})).await;
    let (answer, progress) = talk.answer_with_progress(id).await;
    let pulled = &answer["result"]["structuredContent"];
    assert_eq!(
        (&pulled["image"], &pulled["new"]),
        (&json!(image), &json!(true)),
        "{answer}"
    );
    let share = |at: &Value| at["progress"].as_f64().unwrap() / at["total"].as_f64().unwrap();
    assert!(
        progress
            .windows(2)
            .all(|pair| share(&pair[0]) <= share(&pair[1])),
        "{progress:?}"
    );
    assert!(!progress.is_empty());

    let again = succeed(&lab, "pull_image", json!({"image": image})).await;
    assert_eq!(again["new"], false);
    let missing = image.replace("app:1", "app:2");
    let missing = fail(&lab, "pull_image", json!({"image": missing})).await;
    assert!(missing.contains("Check the name and the tag"), "{missing}");
    succeed!(lab, "remove_image", {"image": image, "confirm": image});
}

#[tokio::test]
async fn a_pull_that_is_given_up_stops() {
    let Some(mut lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&mut lab, "1").await);
    let mut talk = Talk::open(&lab.host, &[]).await;
    let id = talk.start("pull_image", json!({"image": image})).await;
    talk.until("notifications/progress").await;
    talk.cancel(id).await;
    // As a task too.
    let task = talk.start_task("pull_image", json!({"image": image})).await;
    let id = talk.ask("tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(talk.answer(id).await["result"]["status"], "cancelled");
    fail(&lab, "get_image", json!({"image": image})).await;
}

#[tokio::test]
async fn a_build_reports_its_steps_and_is_given_up() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("slow"));
    let mut talk = Talk::open(&lab.host, &[]).await;
    let dockerfile = format!("FROM busybox:test\nLABEL a={tag}\nRUN sleep 600");
    let arguments = json!({"tag": tag, "dockerfile": dockerfile, "no_cache": true});
    let id = talk.start("build_image", arguments).await;
    let first = talk.until("notifications/progress").await;
    assert_starts_with(&first["params"]["message"], "Step 1/");
    while talk.until("notifications/progress").await["params"]["progress"] != 3.0 {}
    talk.cancel(id).await;
    let running = async || {
        let rows = succeed(&lab, "list_containers", json!({"limit": 500})).await;
        let rows = rows["containers"].as_array().unwrap().clone();
        let mut count = 0;
        for row in rows {
            let arguments = json!({"container": row["id"], "sections": ["command", "labels"]});
            let result = super::call(&lab, "get_container", arguments).await;
            count += usize::from(result.to_string().contains(&tag));
        }
        count
    };
    wait_until("the end of the build", async || running().await == 0).await;
}

#[tokio::test]
async fn a_registry_that_cannot_be_reached_is_named() {
    let Some(lab) = lab().await else { return };
    let refused = fail!(lab, "pull_image", {"image": "127.0.0.1:1/nobody/listens:1"});
    assert!(refused.contains("cannot reach the registry"), "{refused}");
}
