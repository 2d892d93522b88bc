//! Images: list, inspect, build, pull, tag, remove.

use super::registry;
use crate::docker::prelude::*;

const COPY_ALL: &str = "FROM busybox:test\nCOPY . /all\nRUN find /all\n";

#[tokio::test]
async fn images_are_listed_and_inspected() {
    let Some(lab) = lab().await else { return };
    let listed = succeed(&lab, "list_images", json!({"name": "BUSYBOX"})).await;
    let row = &listed["images"][0];
    assert!(texts(&row["tags"]).contains(&"busybox:test"), "{listed}");
    assert!(row["size_bytes"].as_i64().unwrap() > 1_000_000);
    let image = succeed!(lab, "list_images", {"image": "busybox:test"})["image"].clone();
    assert_eq!((&image["id"], &image["user"]), (&row["id"], &json!("root")));
    assert!(!image["history"].as_array().unwrap().is_empty());
    let by_id = succeed!(lab, "list_images", {"image": row["id"]})["image"].clone();
    // Other tests give it other names meanwhile.
    assert_eq!(by_id["id"], image["id"]);
    fails_with!(lab, "list_images", {"image": "busybox:tset"}, "Did you mean `busybox:test`");
}

/// Another name of the image, and the end of both; then builds that fail.
const NAMES: &str = r#"
tag_image | {"image": "P-app:1", "new_name": "P-app:2"} | tagged
remove_image | {"image": "IMAGE", "force": true} | ! with its names `P-app:1`, `P-app:2`
remove_image | {"image": "docker.io/library/P-app:2", "force": true, "confirm": "docker.io/library/P-app:2"} | ? that also has other names
remove_image | {"image": "P-app:1", "confirm": "P-app:1"} | ? pulled or built again
list_images | {"image": "P-app:1"} | ! There is no image
build_image | {"tag": "P-app:1", "dockerfile": "FROM busybox:test\nRUN echo no luck; exit 7"} | ! no luck & exit code: 7
build_image | {"tag": "P-app:1"} | ! Give dockerfile or directory
"#;

#[tokio::test]
async fn an_image_is_built_named_and_removed() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("app"));
    let dockerfile = "FROM busybox:test AS app\nARG GREETING\nRUN echo $GREETING\nENV API_KEY=canary-9\n\
        COPY --chmod=755 conf/a.txt /a.txt\nRUN --mount=type=cache,target=/cache touch /cache/x\n\
        COPY <<E /note\nhello\nE\nUSER 1000\nFROM app\nUSER 7";
    let built = succeed!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile, "target": "app",
        "files": {"conf/a.txt": "hello"}, "build_args": {"GREETING": "good-day"}});
    assert_contains(&built["log"], "good-day");
    assert_lacks(&built["log"], "canary-9");
    let image = succeed!(lab, "list_images", {"image": tag})["image"].clone();
    assert_has!(image, {"id": built["id"], "user": "1000"});
    assert_eq!(built["steps"], 5, "{built}");
    assert_lacks(&image, "canary-9");
    lab.steps(NAMES, &[("IMAGE", image["id"].as_str().unwrap())])
        .await;
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
}

#[tokio::test]
async fn an_image_is_pulled_with_progress() {
    let Some(lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&lab, "0.05").await);
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
    let Some(lab) = lab().await else { return };
    let image = format!("{}:1", registry::start(&lab, "9").await);
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
    fail(&lab, "list_images", json!({"image": image})).await;
}

#[tokio::test]
async fn build_reports_progress_and_can_be_cancelled() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("slow"));
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let seconds = 100_000 + u32::from(uuid::Uuid::new_v4().as_fields().1);
    let dockerfile = format!("FROM busybox:test\nRUN sleep {seconds}");
    let arguments = json!({"tag": tag, "dockerfile": dockerfile, "no_cache": true});
    let id = session.start("build_image", arguments).await;
    let is_step = |message: &Value| {
        message
            .as_str()
            .is_some_and(|text| text.contains("[2/2] RUN"))
    };
    while !is_step(&session.until("notifications/progress").await["params"]["message"]) {}
    let runs = || processes_with(&format!("sleep\0{seconds}\0")) > 0;
    wait_until("the step runs", async || runs()).await;
    session.cancel(id).await;
    wait_until("the end of the build", async || !runs()).await;
}

/// The real program and the tool, of the same directory.
#[tokio::test]
async fn built_images_are_those_of_the_command() {
    let dir = Folder::new();
    dir.write("app/run.sh", "echo hi\n");
    dir.write(
        "app/Dockerfile",
        "FROM busybox:test AS base\nARG WORD=none\nENV WORD=$WORD\nFROM base AS one\nCOPY --chmod=755 run.sh /\n\
         RUN --mount=type=cache,target=/cache touch /cache/x\nCOPY <<E /note\nhello\nE\nFROM one\nUSER 7\n",
    );
    let app = dir.path().join("app");
    let Some(lab) = lab_with(&[("DOCKER_MCP_PROJECT_DIR", dir.str())]).await else {
        return;
    };
    let program = format!("{}/docker-buildx", real::compose_dir().unwrap());
    for (number, options, arguments) in [
        (1, vec![], json!({})),
        (2, vec!["--target=one"], json!({"target": "one"})),
        (
            3,
            vec!["--build-arg=WORD=two", "--no-cache"],
            json!({"build_args": {"WORD": "two"}, "no_cache": true}),
        ),
    ] {
        let [real, ours] = ["real", "ours"].map(|who| format!("{}:{number}", lab.name(who)));
        let tag = format!("--tag={real}");
        let directory = app.to_str().unwrap();
        let command = [&["build", "--load", &tag], &options[..], &[directory]].concat();
        lab.command(&program, &command).await.unwrap();
        let arguments = merged(arguments, json!({"tag": ours, "directory": app}));
        succeed(&lab, "build_image", arguments).await;
        let mut images = Vec::new();
        for image in [&real, &ours] {
            let mut image =
                serde_json::to_value(lab.docker.inspect_image(image).await.unwrap()).unwrap();
            let labels = image["Config"].as_object_mut().unwrap().remove("Labels");
            images.push((
                image["Config"].clone(),
                image["RootFS"]["Layers"].as_array().unwrap().len(),
            ));
            drop(labels);
        }
        assert_eq!(images[0], images[1]);
    }
}
