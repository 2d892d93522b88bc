//! Files in and out of containers.

use serde_json::{Value, json};

use super::super::super::lab::Lab;
use super::{confirmed, fail, lab, succeed, texts};

async fn read(lab: &Lab, container: &str, path: &str) -> Value {
    let arguments = json!({"container": container, "path": path});
    succeed(lab, "copy_from_container", arguments).await
}

#[tokio::test]
async fn file_is_copied_in_and_out() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.create("web", &["true"], json!({})).await;
    let arguments =
        json!({"container": name, "path": "/etc/app.conf", "text": "a=1\n", "mode": 600});
    let written = succeed(&lab, "copy_to_container", arguments.clone()).await;
    assert_eq!(written["overwritten"], false);
    let file = read(&lab, &name, "/etc/app.conf").await;
    assert_has!(file, {"text": "a=1\n", "mode": "600"});
    let mut arguments = arguments;
    arguments["text"] = json!("a=2\n");
    let (loss, written) = confirmed(&lab, "copy_to_container", arguments, "/etc/app.conf").await;
    assert!(loss.contains("Overwrites"), "{loss}");
    assert_eq!(written["overwritten"], true);
    assert_eq!(read(&lab, &name, "/etc/app.conf").await["text"], "a=2\n");
    let arguments = json!({"container": name, "path": "/nowhere/x", "text": ""});
    fails_with!(
        lab,
        "copy_to_container",
        arguments,
        "There is no \"/nowhere\""
    );
}

#[tokio::test]
async fn binary_and_long_files_are_copied() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.create("web", &["true"], json!({})).await;
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/blob", "base64": "AAH/"});
    assert_eq!(read(&lab, &name, "/etc/blob").await["base64"], "AAH/");
    let long = "line\n".repeat(10_000);
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/long", "text": long});
    let file = read(&lab, &name, "/etc/long").await;
    assert_has!(file, {"size_bytes": 50_000, "truncated": true});
    assert!(file["text"].as_str().unwrap().len() <= 7_000);
    let arguments = json!({"container": name, "path": "/etc/long", "max_bytes": 60_000});
    let file = succeed(&lab, "copy_from_container", arguments).await;
    assert_eq!(file["text"], json!(long));
}

#[tokio::test]
async fn directories_are_listed_and_secrets_hidden() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.create("web", &["true"], json!({})).await;
    let root = read(&lab, &name, "/").await;
    assert_eq!(root["kind"], "directory");
    assert!(texts(&root["entries"]).contains(&"bin/"), "{root}");
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/env",
        "text": "API_TOKEN=canary-8\nPORT=80\n"});
    let file = read(&lab, &name, "/etc/env").await;
    assert_eq!(file["text"], "API_TOKEN=***\nPORT=80\n");
}

#[tokio::test]
async fn paths_are_checked() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.create("web", &["true"], json!({})).await;
    for path in ["", "etc/passwd", "../x", "\0", "/etc/\0"] {
        for tool in ["copy_from_container", "copy_to_container"] {
            let mut arguments = json!({"container": name, "path": path});
            if tool == "copy_to_container" {
                arguments["text"] = json!("x");
            }
            fails_with!(lab, tool, arguments, "absolute");
        }
    }
    for path in ["/", "/etc/", "/etc/.."] {
        let arguments = json!({"container": name, "path": path, "text": "x"});
        fails_with!(lab, "copy_to_container", arguments, "name of the file");
    }
    // A text like another parameter or endpoint is a plain path in the container.
    let arguments = json!({"container": name, "path": "/x?force=true&path=/etc#../../volumes"});
    fails_with!(lab, "copy_from_container", arguments, "There is no");
}
