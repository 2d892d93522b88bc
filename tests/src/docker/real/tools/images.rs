//! Images: list, inspect, build, pull, tag, remove.

use std::fs;

use bollard::query_parameters::ListContainersOptions;
use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab};
use super::stdio_session::StdioSession;
use super::{confirmed, fail, lab, lab_with, registry, succeed, texts};
use crate::harness::{assert_contains, assert_lacks, assert_starts_with, real, wait_until};

const COPY_ALL: &str = "FROM busybox:test\nCOPY . /all\nRUN find /all\n";

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
    fails_with!(lab, "get_image", {"image": "busybox:tset"}, "Did you mean `busybox:test`");
}

#[tokio::test]
async fn an_image_is_built_named_and_removed() {
    let Some(lab) = lab().await else { return };
    let [tag, other] = [1, 2].map(|number| format!("{}:{number}", lab.name("app")));
    let dockerfile = "FROM busybox:test\nARG GREETING\nRUN echo $GREETING\nENV API_KEY=canary-9\nCOPY conf/a.txt /a.txt\nUSER 1000";
    let built = succeed!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile,
        "files": {"conf/a.txt": "hello"}, "build_args": {"GREETING": "good-day"}});
    let log = built["log"].as_str().unwrap();
    assert_contains(&log, "good-day");
    assert_lacks(&log, "canary-9");
    let image = succeed(&lab, "get_image", json!({"image": tag})).await;
    assert_has!(image, {"id": built["id"], "user": "1000"});
    assert!(!image.to_string().contains("canary-9"), "{image}");

    succeed!(lab, "tag_image", {"image": tag, "new_name": other});
    let (loss, _) = confirmed(&lab, "remove_image", json!({"image": other}), &other).await;
    assert!(loss.contains("that also has other names"), "{loss}");
    let (loss, _) = confirmed(&lab, "remove_image", json!({"image": tag}), &tag).await;
    assert!(loss.contains("pulled or built again"), "{loss}");
    fail(&lab, "get_image", json!({"image": tag})).await;
}

#[tokio::test]
async fn failed_build_returns_its_last_output() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("app"));
    let dockerfile = "FROM busybox:test\nRUN echo no luck; exit 7";
    fails_with!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile}, "no luck", "code: 7");
    fails_with!(lab, "build_image", {"tag": tag}, "Give dockerfile or directory");
}

/// Instructions that a base image adds to a build are judged as those of the Dockerfile.
#[tokio::test]
async fn base_images_bring_no_images_past_the_rules() {
    for host in real::docker_engines() {
        let free = Lab::at(host.clone(), &[("MCP_TOOLSETS", "all")]).await;
        let (prod, base) = (free.name("prod"), free.name("base"));
        let rule = format!("image={prod}");
        let env = [("MCP_TOOLSETS", "all"), ("DOCKER_MCP_DENY", &*rule)];
        let bounded = Lab::at(host, &env).await;
        let theirs = format!("{prod}:1");
        succeed!(free, "build_image", {"tag": theirs, "dockerfile": "FROM busybox:test\nLABEL a=b"});
        let tag = format!("{}:1", free.name("app"));
        let mut made = vec![theirs.clone()];
        for (number, trigger, reason) in [
            (
                1,
                format!("COPY --from={theirs} /bin/busybox /x"),
                "not accessible",
            ),
            (
                2,
                "COPY --fr'o'm=x /bin/busybox /x".to_owned(),
                "a quoted option",
            ),
            (3, "RUN true".to_owned(), ""),
            // An earlier stage.
            (4, "COPY --from=first /bin/busybox /x".to_owned(), ""),
        ] {
            let base = format!("{base}:{number}");
            let dockerfile = format!("FROM busybox:test\nONBUILD {trigger}");
            succeed!(free, "build_image", {"tag": base, "dockerfile": dockerfile});
            made.push(base.clone());
            let dockerfile = format!("FROM busybox:test AS first\nFROM {base}\nLABEL a=b");
            let build = json!({"tag": tag, "dockerfile": dockerfile});
            match reason {
                "" => _ = succeed(&bounded, "build_image", build).await,
                reason => fails_with!(bounded, "build_image", build, reason),
            }
        }
        let missing = format!("FROM {}:9", free.name("missing"));
        let build = json!({"tag": tag, "dockerfile": missing});
        fails_with!(bounded, "build_image", build, "Call pull_image", "ONBUILD");
        let foreign = "FROM --platform=linux/arm64 busybox:test\nLABEL a=b";
        let build = json!({"tag": tag, "dockerfile": foreign});
        fails_with!(bounded, "build_image", build, "without a platform");
        made.push(tag);
        for image in made.into_iter().rev() {
            succeed!(free, "remove_image", {"image": image, "confirm": image});
        }
    }
}

#[tokio::test]
async fn only_allowed_directories_are_built() {
    let dir = Folder::new();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&outside).unwrap();
    dir.write("in/Dockerfile", COPY_ALL);
    dir.write("in/.dockerignore", "target\n*.key\n");
    for file in ["target/big", "private.key", "main.c"] {
        dir.write(&format!("in/{file}"), "x");
    }
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
    let outside = outside.to_str().unwrap();
    for path in ["/", "/etc", "relative", &climbing, &link, outside] {
        let refused = fail(&lab, "build_image", build(path)).await;
        let expected = refused.contains("outside") || refused.contains("absolute");
        assert!(expected, "{path}: {refused}");
    }
    succeed!(lab, "remove_image", {"image": tag, "confirm": tag});
}

/// The exclusion of everything except some files keeps a secret, and the Dockerfile itself, from the
/// engine.
#[tokio::test]
async fn dockerignore_exceptions_do_not_send_secrets() {
    let dir = Folder::new();
    let ignore = "# all but the source\n*\n!/src/\nsrc/keys/**\n!**/public.key\n";
    dir.write("Dockerfile", COPY_ALL);
    dir.write(".dockerignore", ignore);
    for file in [
        ".env",
        "node_modules/x/y.js",
        "src/main.c",
        "src/keys/private.key",
        "src/keys/public.key",
    ] {
        dir.write(file, "x");
    }
    let text = dir.str();
    let env = [("MCP_TOOLSETS", "all"), ("DOCKER_MCP_PROJECT_DIR", text)];
    for host in real::docker_engines().into_iter().chain(real::podman()) {
        let lab = Lab::at(host, &env).await;
        let tag = format!("localhost/{}:1", lab.name("app"));
        let built = succeed!(lab, "build_image", {"tag": tag, "directory": text, "no_cache": true});
        let log = built["log"].as_str().unwrap();
        for sent in ["/all/src/main.c", "/all/src/keys/public.key"] {
            assert!(log.contains(sent), "{sent}: {log}");
        }
        for kept in [".env", "node_modules", "private.key", "/all/Dockerfile"] {
            assert!(!log.contains(kept), "{kept}: {log}");
        }
        succeed!(lab, "remove_image", {"image": tag, "confirm": tag});
    }
}

#[tokio::test]
async fn an_image_is_pulled_with_progress() {
    let Some(mut lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&mut lab, "0.05").await);
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let id = session.start("pull_image", json!({"image": image})).await;
    let (answer, progress) = session.answer_with_progress(id).await;
    let pulled = &answer["result"]["structuredContent"];
    assert_has!(pulled, {"image": image, "new": true});
    let share = |at: &Value| at["progress"].as_f64().unwrap() / at["total"].as_f64().unwrap();
    let grows = progress.is_sorted_by_key(share);
    assert!(grows && !progress.is_empty(), "{progress:?}");

    let again = succeed(&lab, "pull_image", json!({"image": image})).await;
    assert_eq!(again["new"], false);
    let missing = image.replace("app:1", "app:2");
    fails_with!(lab, "pull_image", {"image": missing}, "Check the name and the tag");
    succeed!(lab, "remove_image", {"image": image, "confirm": image});
}

#[tokio::test]
async fn cancelled_pull_stops() {
    let Some(mut lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&mut lab, "1").await);
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let id = session.start("pull_image", json!({"image": image})).await;
    session.until("notifications/progress").await;
    session.cancel(id).await;
    // As a task too.
    let task = session
        .start_task("pull_image", json!({"image": image}))
        .await;
    let id = session.ask("tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(session.answer(id).await["result"]["status"], "cancelled");
    fail(&lab, "get_image", json!({"image": image})).await;
}

#[tokio::test]
async fn build_reports_steps_and_can_be_cancelled() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("slow"));
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let dockerfile = format!("FROM busybox:test\nLABEL a={tag}\nRUN sleep 600");
    let arguments = json!({"tag": tag, "dockerfile": dockerfile, "no_cache": true});
    let id = session.start("build_image", arguments).await;
    let first = session.until("notifications/progress").await;
    assert_starts_with(&first["params"]["message"], "Step 1/");
    while session.until("notifications/progress").await["params"]["progress"] != 3.0 {}
    session.cancel(id).await;
    let running = async || {
        let rows = lab.docker.list_containers(None::<ListContainersOptions>);
        let mut count = 0;
        for row in rows.await.unwrap() {
            let arguments = json!({"container": row.id, "sections": ["command", "labels"]});
            let result = super::call(&lab, "get_container", arguments).await;
            count += usize::from(result.to_string().contains(&tag));
        }
        count
    };
    wait_until("the end of the build", async || running().await == 0).await;
}

#[tokio::test]
async fn unreachable_registry_is_explained() {
    let Some(lab) = lab().await else { return };
    let refused = fail!(lab, "pull_image", {"image": "127.0.0.1:1/nobody/listens:1"});
    assert!(refused.contains("cannot reach the registry"), "{refused}");
}
