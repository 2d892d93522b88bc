//! Requests to child processes, which are shell scripts.

use mcp_client::{Client, Command, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::recorder::recorder;

/// A server that is a shell script.
pub(crate) fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

pub(crate) fn client(script: &str) -> Client {
    Client::stdio(sh(script)).unwrap()
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
    let client = Client::stdio(command).unwrap();
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
    let client = Client::builder().handler(handler).stdio(command).unwrap();
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
