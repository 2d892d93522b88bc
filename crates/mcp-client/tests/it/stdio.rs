//! Child processes, which are shell scripts: requests to them, their end, and what they do wrong.

use std::time::{Duration, Instant};

use mcp_client::{Client, Command, Error, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::server::{builder, recorder};

/// A server that is a shell script.
pub(crate) fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

pub(crate) fn client(script: &str) -> Client {
    builder().stdio(sh(script)).unwrap()
}

fn parse(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

#[tokio::test]
async fn responses_may_come_in_any_order_and_as_a_batch() {
    let client = client(
        r#"
        read -r one; read -r two; read -r three
        echo '{"jsonrpc":"2.0","id":3,"result":3}'
        echo '[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}]'
        read -r rest
        "#,
    );
    let (one, two, three) = tokio::join!(
        client.request("m", &()),
        client.request("m", &()),
        client.request("m", &()),
    );
    assert_eq!(one.unwrap().get(), "1");
    assert_eq!(two.unwrap_err().rpc().unwrap().code, -1);
    assert_eq!(three.unwrap().get(), "3");
}

#[tokio::test]
async fn children_inherit_only_known_variables() {
    // What the shell itself sets, and what a child needs to find programs, files and the language.
    const KNOWN: &str = "_ OLDPWD PWD SHLVL HOME LANG LANGUAGE LC_ALL LC_CTYPE LOGNAME PATH SHELL \
        TERM TMPDIR TZ USER";
    let script = r#"
        read -r request
        names=$(env | sed 's/=.*//' | tr '\n' ' ')
        printf '{"jsonrpc":"2.0","id":1,"result":["%s","%s","%s"]}\n' "$DECLARED" "$(pwd)" "$names"
    "#;
    let command = sh(script).env("DECLARED", "yes").directory("/");
    let client = builder().stdio(command).unwrap();
    let answer = client.request("m", &()).await.unwrap();
    let [declared, directory, names]: [String; 3] = serde_json::from_str(answer.get()).unwrap();
    assert_eq!((declared.as_str(), directory.as_str()), ("yes", "/"));
    let known: Vec<&str> = KNOWN.split_whitespace().collect();
    let foreign = |name: &&str| *name != "DECLARED" && !known.contains(name);
    assert_eq!(names.split_whitespace().find(foreign), None);
    assert!(names.contains("PATH"), "{names}");
}

#[tokio::test]
async fn child_may_send_requests_and_progress() {
    let (handler, mut seen) = recorder(Some(json!({"roots": []})));
    let command = sh(r#"
        read -r request
        echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}'
        echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress":0.5}}'
        echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'
        read -r pong
        echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
        read -r roots
        printf '{"jsonrpc":"2.0","id":1,"result":[%s,%s]}\n' "$pong" "$roots"
        read -r rest
        "#);
    let client = builder().handler(handler).stdio(command).unwrap();
    let (reports, mut progress) = mpsc::channel(8);
    let options = Options::default().progress(reports);
    let answer = client.request_with("m", &(), options).await.unwrap();
    let (kind, method, params) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("notification", "notifications/progress"));
    assert_eq!(params["progressToken"], 9);
    let (kind, method, _) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("request", "roots/list"));
    assert_eq!(
        parse(&answer),
        json!([
            {"jsonrpc": "2.0", "id": "p", "result": {}},
            {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}},
        ])
    );
    assert_eq!(progress.recv().await.unwrap().progress, 0.5);
}

#[tokio::test]
async fn requests_of_the_server_are_refused_without_a_handler() {
    let client = client(
        r#"
        read -r request
        echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
        read -r refusal
        printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' "$refusal"
        read -r rest
        "#,
    );
    let refusal = parse(&client.request("m", &()).await.unwrap());
    assert_eq!(refusal["error"]["code"], -32601);
}

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
    let waited = tokio::time::timeout(Duration::from_secs(60), gone).await;
    waited.expect("the process is still there");
}

#[tokio::test]
async fn missing_program_is_an_error() {
    for (command, reason) in [
        (
            Command::new("/no/such/program"),
            "there is no such program at its path: correct the path, or install the program",
        ),
        (
            Command::new("no-such-program"),
            "there is no such program in PATH: install it, or name it with its folder",
        ),
        (
            Command::new("/bin/sh").directory("/no/such/folder"),
            "its working directory (`cwd`) does not exist: create it, or correct the path",
        ),
    ] {
        let error = builder().stdio(command).map(drop).unwrap_err();
        assert_error!(error, Error::Unreachable { .. });
        assert!(error.to_string().ends_with(reason), "{error}");
    }
}

#[tokio::test]
async fn last_response_before_an_exit_is_read() {
    let client = client(r#"read -r a; echo '{"jsonrpc":"2.0","id":1,"result":"last"}'; exit 1"#);
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""last""#);
}

#[tokio::test]
async fn end_of_a_child_fails_pending_and_later_requests() {
    for (does, reason) in [
        ("exit 3", "exit status: 3"),
        ("exec >&-", "it closed its output"),
        (
            "head -c 9000000 /dev/zero",
            "it wrote a line of more than 8388608 bytes",
        ),
    ] {
        let client = client(&format!("read -r a; read -r b; {does}; read -r c"));
        let (one, two) = tokio::join!(client.request("m", &()), client.request("m", &()));
        assert_closed(&one.unwrap_err(), reason);
        assert_closed(&two.unwrap_err(), reason);
        let error = client.request("m", &()).await.unwrap_err();
        assert!(error.was_not_sent(), "{error:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn close_lets_a_child_exit_by_itself() {
    let file = std::env::temp_dir().join(format!("mcp-client-close-{}", std::process::id()));
    let script = r#"
        read -r a; echo '{"jsonrpc":"2.0","id":1,"result":1}'
        while read -r line; do last="$line"; done
        echo "$last" > "$FILE"
    "#;
    let client = builder().stdio(sh(script).env("FILE", &file)).unwrap();
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

#[tokio::test]
async fn descendants_of_a_child_that_is_dropped_or_exits_are_killed() {
    for is_dropped in [true, false] {
        let client = client(
            r#"
            sleep 1000 & child=$!
            read -r a; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' $child
            read -r b
            "#,
        );
        let pid = client.request("m", &()).await.unwrap();
        if is_dropped {
            drop(client);
        } else {
            let error = client.request("exit", &()).await.unwrap_err();
            assert_closed(&error, "exit status: 0");
        }
        gone(pid.get()).await;
    }
}

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
    let counted = client.counters();
    assert_eq!(
        (counted.unmatched_responses, counted.invalid_messages),
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
    let fault = "invalid JSON: NaN is not a JSON value";
    assert!(error.to_string().ends_with(fault), "{error}");
    let result = client.request("m", &()).await.unwrap();
    assert_eq!(result.get(), r#"{"mean":1e400}"#);
    let error = client.request("m", &()).await.unwrap_err();
    let fault = "Missing required field: jsonrpc";
    assert!(error.to_string().contains(fault), "{error}");
    assert_eq!(client.counters().invalid_messages, 3);
}

#[tokio::test]
async fn child_that_does_not_read_is_busy_within_five_seconds() {
    let client = client("sleep 1000");
    tokio::time::pause();
    // More than a pipe holds.
    let big = json!({"big": "x".repeat(100_000)});
    let call = async || {
        let began = tokio::time::Instant::now();
        let options = Options::default().timeout(Duration::from_secs(6));
        let error = client.request_with("m", &big, options).await.unwrap_err();
        (error, began.elapsed())
    };
    let calls = futures_util::future::join_all((0..70).map(|_| call())).await;
    let is_busy = |error: &Error| matches!(error, Error::Busy { .. });
    let busy: Vec<_> = calls.iter().filter(|(error, _)| is_busy(error)).collect();
    let count = busy.len();
    assert!((4..70).contains(&count), "{count} of 70 are busy");
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
    let began = Instant::now();
    let client = builder().handler(handler).stdio(command).unwrap();
    assert_eq!(client.request("m", &()).await.unwrap().get(), "1");
    // What is left in the pipe is read after the answer.
    let (mut lines, mut longest) = (0_u64, 0);
    while lines + client.counters().stderr_dropped < 100_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        while let Ok((kind, line, _)) = seen.try_recv() {
            assert_eq!(kind, "stderr");
            lines += 1;
            longest = longest.max(line.len());
        }
    }
    client.close().await;
    // 50 for each second that it took, of which the first and the last are not whole.
    let most = 50 * (began.elapsed().as_secs() + 2);
    assert!((50..=most).contains(&lines), "{lines} lines");
    assert_eq!(longest, 4096);
    assert_eq!(lines + client.counters().stderr_dropped, 100_000);
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
    let client = builder().handler(handler).stdio(command).unwrap();
    let pong = client.request("m", &()).await.unwrap();
    assert_eq!(pong.get(), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert_eq!(seen.recv().await.unwrap().0, "request");
    assert!(seen.try_recv().is_err());
}
