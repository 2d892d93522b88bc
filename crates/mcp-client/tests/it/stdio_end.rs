//! The end of child processes and their descendants.

use std::time::Duration;

use mcp_client::{Client, Command, Error};
use serde_json::json;

use crate::stdio::{client, sh};

#[track_caller]
fn assert_closed(error: &Error, reason: &str) {
    assert_error!(error, Error::Closed { .. });
    assert_eq!(
        error.to_string(),
        format!("the connection to sh has ended: {reason}")
    );
}

/// Waits until a process is gone, or a zombie.
async fn gone(pid: &str) {
    let stat = format!("/proc/{pid}/stat");
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let gone = async {
        while alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), gone).await;
    waited.expect("the process is still there");
}

#[tokio::test]
async fn missing_program_is_an_error() {
    let client = Client::stdio(Command::new("/no/such/program"));
    let error = client.map(drop).unwrap_err();
    assert_error!(error, Error::Unreachable { .. });
    assert_eq!(error.to_string(), "program cannot be reached");
}

#[tokio::test]
async fn crash_fails_pending_and_later_requests() {
    let client = client("read -r a; read -r b; exit 3");
    let (one, two) = tokio::join!(client.request("m", &()), client.request("m", &()));
    assert_closed(&one.unwrap_err(), "exit status: 3");
    assert_closed(&two.unwrap_err(), "exit status: 3");
    let error = client.request("m", &()).await.unwrap_err();
    assert!(error.was_not_sent(), "{error:?}");
    client.close().await;
}

#[tokio::test]
async fn last_response_before_an_exit_is_read() {
    let client = client(r#"read -r a; echo '{"jsonrpc":"2.0","id":1,"result":"last"}'; exit 1"#);
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""last""#);
}

#[tokio::test]
async fn closed_stdout_ends_the_connection() {
    let client = client("read -r a; exec >&-; read -r b");
    let error = client.request("m", &()).await.unwrap_err();
    assert_closed(&error, "it closed its output");
}

#[tokio::test]
async fn line_over_the_limit_ends_the_connection() {
    let command = sh("read -r a; printf '%2000d' 1; read -r b").max_message(1000);
    let client = Client::stdio(command).unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert_closed(&error, "it wrote a line of more than 1000 bytes");
}

#[tokio::test]
async fn close_lets_a_child_exit_by_itself() {
    let file = std::env::temp_dir().join(format!("mcp-client-close-{}", std::process::id()));
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
async fn child_that_ignores_sigterm_is_killed() {
    let client = client(
        r#"
        trap '' TERM
        read -r a; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' $$
        while :; do sleep 1; done
        "#,
    );
    let pid = client.request("m", &()).await.unwrap();
    // Skips the grace periods.
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
async fn drop_kills_the_child_and_its_descendants() {
    let client = client(FAMILY);
    let pid = client.request("m", &()).await.unwrap();
    drop(client);
    gone(pid.get()).await;
}

#[tokio::test]
async fn descendants_of_a_child_that_exits_are_killed() {
    let client = client(FAMILY);
    let pid = client.request("m", &()).await.unwrap();
    let error = client.request("exit", &()).await.unwrap_err();
    assert_closed(&error, "exit status: 0");
    gone(pid.get()).await;
}

#[tokio::test]
async fn requests_to_a_child_that_does_not_read_time_out() {
    let client = Client::builder()
        .timeout(Duration::from_millis(200))
        .stdio(sh("sleep 1000"));
    let client = client.unwrap();
    let big = "x".repeat(100_000);
    for _ in 0..3 {
        let error = client.request("m", &json!({"big": big})).await.unwrap_err();
        assert_error!(error, Error::Timeout { .. });
    }
}
