//! Files of tasks that are not text, in both directions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::changes::decoded;
use super::{assert_error, call, client};

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
