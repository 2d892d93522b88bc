//! Files of tasks that are not text, in both directions, and archives.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::changes::decoded;
use super::workspaces::TestDirectory;
use super::{assert_error, call, client, run_task};

#[tokio::test]
async fn binary_file_comes_and_goes_byte_for_byte() {
    let Some(client) = client().await else { return };
    let bytes: Vec<u8> = (0..5_000_u32).map(|n| (n * 7 % 256) as u8).collect();
    let given = STANDARD.encode(&bytes);
    let context = json!({"files": [
        {"file": "in/x.bin", "content": given, "encoding": "base64"},
        {"file": "latin.txt", "content": STANDARD.encode(b"caf\xe9"), "encoding": "base64"},
    ]});
    let run = call!(client, "run_task", {"task": "RUN: cp in/x.bin y.bin", "context": context});
    assert_eq!(run["changed_files"], json!(["A y.bin"]), "{run}");
    for (file, expected) in [("y.bin", &bytes[..]), ("latin.txt", b"caf\xe9")] {
        let (mut read, mut offset) = (Vec::new(), json!(0));
        while !offset.is_null() {
            let part = call!(client, "get_task_file", {"task_id": run["task_id"], "file": file,
                "max_bytes": 1_000, "offset": offset});
            assert_eq!(part["size"], expected.len());
            read.extend(decoded(part["base64"].as_str().unwrap()));
            offset = part["next_offset"].clone();
        }
        assert_eq!(read, expected);
    }
    let rest = call!(client, "get_task_file", {"task_id": run["task_id"], "file": "latin.txt",
        "offset": 3});
    assert_has!(rest, {"base64": "6Q==", "next_offset": null});
}

#[tokio::test]
async fn archive_in_parts_has_the_files() {
    let Some(client) = client().await else { return };
    let task = "RUN: mkdir -p d/e; head -c 9000 /dev/urandom > d/e/random; echo x > 'd/a b'; ln -s \
                /etc/passwd link; ln -s /etc out; echo y > top; sha256sum d/e/random";
    let run = run_task(&client, task).await;
    let id = &run["task_id"];
    let whole = archive(&client, json!({"task_id": id, "max_bytes": 2_000})).await;
    let place = TestDirectory::new();
    let file = place.0.join("archive.tar.gz");
    std::fs::write(&file, whole).unwrap();
    let unpacked = Command::new("tar")
        .args(["-xzf", "archive.tar.gz"])
        .current_dir(&place.0)
        .status()
        .unwrap();
    assert!(unpacked.success());
    let sum = Command::new("sha256sum")
        .arg("d/e/random")
        .current_dir(&place.0)
        .output()
        .unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(run["last_output"], sum.trim_end());
    assert!(place.0.join("d/a b").exists() && place.0.join("top").exists());
    assert!(place.0.join("link").is_symlink() && !place.0.join(".git").exists());
    let one = archive(&client, json!({"task_id": id, "file": "top"})).await;
    assert!(one.len() < 1_000);
    for (file, why) in [("out/passwd", "symbolic link"), ("none", "no such file")] {
        assert_error!(client, "get_task_archive", {"task_id": id, "file": file}, why);
    }
    let cursor = format!("{}:0", uuid::Uuid::new_v4().simple());
    assert_error!(client, "get_task_archive", {"task_id": id, "cursor": cursor}, "too old");
}

#[tokio::test]
async fn files_that_clash_are_refused_by_name() {
    let Some(client) = client().await else { return };
    let files = json!([{"file": "a", "content": "x"}, {"file": "a/b.txt", "content": "y"}]);
    assert_error!(client, "run_task", {"task": "SAY: x", "context": {"files": files}},
        "context has a twice");
    let name = format!("clash-{}", uuid::Uuid::new_v4());
    call!(client, "run_task", {"task": "RUN: mkdir d", "workspace": name});
    let context = json!({"file": "d", "content": "x"});
    assert_error!(client, "run_task", {"task": "SAY: x", "workspace": name, "context": context},
        "d cannot be written");
    let context = json!({"file": "d", "content": "?", "encoding": "base64"});
    assert_error!(client, "run_task", {"task": "SAY: x", "context": context}, "not valid base64");
}

async fn archive(client: &mcp_client::Client, mut ask: Value) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let part = call(client, "get_task_archive", ask.clone()).await;
        whole.extend(decoded(part["base64"].as_str().unwrap()));
        if part["next_cursor"].is_null() {
            assert_eq!(part["size"], whole.len());
            return whole;
        }
        ask["cursor"] = part["next_cursor"].clone();
    }
}
