//! Children that flood, do not read, and send wrong messages.

use std::time::{Duration, Instant};

use mcp_client::{Client, Error};
use serde_json::json;

use crate::recorder::recorder;
use crate::stdio::{client, sh};

#[tokio::test]
async fn unmatched_responses_are_counted_and_dropped() {
    let client = client(
        r#"
        read -r a
        echo '{"jsonrpc":"2.0","id":7,"result":"unmatched"}'
        echo '{"jsonrpc":"2.0","id":"1","result":"a string"}'
        echo '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}'
        echo '{"jsonrpc":"2.0","id":1,"result":"mine"}'
        echo '{"jsonrpc":"2.0","id":1,"result":"once more"}'
        echo 'Server is ready.'
        read -r b
        echo '{"jsonrpc":"2.0","id":2,"result":"second"}'
        read -r rest
        "#,
    );
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""mine""#);
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""second""#);
    let counters = client.counters();
    assert_eq!(
        (counters.unmatched_responses, counters.invalid_messages),
        (4, 1)
    );
}

#[tokio::test]
async fn answer_with_invalid_json_fails_its_request_at_once() {
    let client = client(
        r#"
        read -r a
        echo '{"level":"info","id":1,"text":NaN}'
        echo '{"jsonrpc":"2.0","id":1,"result":{"mean":NaN}}'
        read -r b
        echo '{"jsonrpc":"2.0","id":2,"result":{"mean":1e400}}'
        read -r c
        echo '{"id":3,"result":{}}'
        read -r rest
        "#,
    );
    let error = client.request("m", &()).await.unwrap_err();
    assert_error!(error, Error::InvalidAnswer { .. });
    assert!(
        error
            .to_string()
            .ends_with("invalid JSON: NaN is not a JSON value"),
        "{error}"
    );
    let result = client.request("m", &()).await.unwrap();
    assert_eq!(result.get(), r#"{"mean":1e400}"#);
    let error = client.request("m", &()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Missing required field: jsonrpc"),
        "{error}"
    );
    assert_eq!(client.counters().invalid_messages, 3);
}

#[tokio::test]
async fn child_that_does_not_read_is_busy_within_five_seconds() {
    let client = client("sleep 1000");
    // More than a pipe holds.
    let big = json!({"big": "x".repeat(100_000)});
    let call = async || {
        let began = Instant::now();
        let options = mcp_client::Options::default().timeout(Duration::from_secs(6));
        let error = client.request_with("m", &big, options).await.unwrap_err();
        (error, began.elapsed())
    };
    let calls = futures_util::future::join_all((0..70).map(|_| call())).await;
    let is_busy = |error: &Error| matches!(error, Error::Busy { .. });
    let busy: Vec<_> = calls.iter().filter(|(error, _)| is_busy(error)).collect();
    assert!(
        busy.len() >= 4 && busy.len() < 70,
        "{} of 70 are busy",
        busy.len()
    );
    for (error, after) in busy {
        assert!(error.was_not_sent() && error.is_transport_failure());
        assert!(*after < Duration::from_millis(5500), "{after:?}");
    }
}

#[tokio::test]
async fn flood_on_stderr_is_rate_limited() {
    let (handler, mut seen) = recorder(None);
    let command = sh(r#"
        read -r a
        head -c 30000000 /dev/zero | tr '\0' 'x' >&2
        seq 100000 >&2
        echo '{"jsonrpc":"2.0","id":1,"result":1}'
        read -r b
        "#);
    let client = Client::builder().handler(handler).stdio(command).unwrap();
    assert_eq!(client.request("m", &()).await.unwrap().get(), "1");
    client.close().await;
    let (mut lines, mut longest) = (0_u32, 0);
    while let Ok((kind, line, _)) = seen.try_recv() {
        assert_eq!(kind, "stderr");
        lines += 1;
        longest = longest.max(line.len());
    }
    // 50 for each second that it took.
    assert!((50..2000).contains(&lines), "{lines} lines");
    assert_eq!(longest, 4096);
    assert_eq!(u64::from(lines) + client.counters().stderr_dropped, 100_000);
}

#[tokio::test]
async fn cancelled_request_of_the_child_is_not_answered() {
    let (handler, mut seen) = recorder(None);
    let command = sh(r#"
        read -r a
        echo '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}'
        echo '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}'
        echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'
        read -r pong
        printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' "$pong"
        read -r rest
        "#);
    let client = Client::builder().handler(handler).stdio(command).unwrap();
    let pong = client.request("m", &()).await.unwrap();
    assert_eq!(pong.get(), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert_eq!(seen.recv().await.unwrap().0, "request");
    assert!(seen.try_recv().is_err());
}
