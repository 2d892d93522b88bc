//! How a child ends, and that nothing of it is left.

use std::time::Duration;

use mcp_client::{Client, Command, Error};
use serde_json::json;

use crate::stdio::{client, sh};

#[track_caller]
fn assert_closed(error: &Error, reason: &str) {
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("sh is gone: {reason}"));
}

/// Waits until a process is gone; a zombie is.
async fn gone(pid: &str) {
    let stat = format!("/proc/{pid}/stat");
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    tokio::time::timeout(Duration::from_secs(10), async {
        while alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the process is still there");
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    let error = Client::stdio(Command::new("/no/such/program"))
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(error.to_string(), "program cannot be reached");
}

#[tokio::test]
async fn a_crash_reaches_all_who_wait_and_all_who_come() {
    let client = client("read -r a; read -r b; exit 3");
    let (one, two) = tokio::join!(client.request("m", &()), client.request("m", &()));
    assert_closed(&one.unwrap_err(), "exit status: 3");
    assert_closed(&two.unwrap_err(), "exit status: 3");
    let error = client.request("m", &()).await.unwrap_err();
    assert!(error.was_not_sent(), "{error:?}");
    client.close().await;
}

#[tokio::test]
async fn what_a_child_says_before_it_exits_counts() {
    let client = client(r#"read -r a; echo '{"jsonrpc":"2.0","id":1,"result":"last"}'; exit 1"#);
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""last""#);
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_gone() {
    let client = client("read -r a; exec >&-; read -r b");
    let error = client.request("m", &()).await.unwrap_err();
    assert_closed(&error, "it closed its output");
}

#[tokio::test]
async fn a_line_past_the_limit_ends_the_connection() {
    let command = sh("read -r a; printf '%2000d' 1; read -r b").max_message(1000);
    let error = Client::stdio(command)
        .unwrap()
        .request("m", &())
        .await
        .unwrap_err();
    assert_closed(&error, "it wrote a line of more than 1000 bytes");
}

#[tokio::test]
async fn close_lets_a_child_end_in_peace() {
    let file = std::env::temp_dir().join(format!("mcp-client-peace-{}", std::process::id()));
    let script = r#"
        read -r a; echo '{"jsonrpc":"2.0","id":1,"result":1}'
        while read -r line; do last="$line"; done
        echo "$last" > "$FILE"
    "#;
    let client = Client::stdio(sh(script).env("FILE", &file)).unwrap();
    client.request("m", &()).await.unwrap();
    client.notify("last", &json!({})).await.unwrap();
    client.close().await;
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains(r#""last""#), "{written}");
    std::fs::remove_file(&file).unwrap();
    assert!(client.request("m", &()).await.unwrap_err().was_not_sent());
}

#[tokio::test]
async fn a_stubborn_child_is_killed() {
    let client = client(
        r#"
        trap '' TERM
        read -r a; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' $$
        while :; do sleep 1; done
        "#,
    );
    let pid = client.request("m", &()).await.unwrap();
    // The waits between the steps pass at once.
    tokio::time::pause();
    client.close().await;
    tokio::time::resume();
    gone(pid.get()).await;
}

const FAMILY: &str = r#"
    sleep 1000 & child=$!
    read -r a; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' $child
    read -r b
"#;

#[tokio::test]
async fn drop_kills_the_child_and_its_children() {
    let client = client(FAMILY);
    let pid = client.request("m", &()).await.unwrap();
    drop(client);
    gone(pid.get()).await;
}

#[tokio::test]
async fn the_children_of_a_child_that_exits_are_killed() {
    let client = client(FAMILY);
    let pid = client.request("m", &()).await.unwrap();
    let error = client.request("exit", &()).await.unwrap_err();
    assert_closed(&error, "exit status: 0");
    gone(pid.get()).await;
}

#[tokio::test]
async fn a_child_that_does_not_read_blocks_nobody_for_ever() {
    let client = Client::builder()
        .timeout(Duration::from_millis(200))
        .stdio(sh("sleep 1000"));
    let client = client.unwrap();
    let big = "x".repeat(100_000);
    for _ in 0..3 {
        let error = client.request("m", &json!({"big": big})).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    }
}
