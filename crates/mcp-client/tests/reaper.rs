//! Children under a reaper. Not a part of `it`: this program is also the reaper, and a parent that is
//! killed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its name"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use mcp_client::{Client, Command, Error, reaper};

/// Starts a child in its group, one in its own session, and one that ignores SIGTERM; returns their
/// ids; then runs on, also after its stdin is closed.
const FAMILY: &str = r#"
    trap '' TERM
    sleep 1000 & one=$!
    setsid sleep 1000 & two=$!
    (trap '' TERM; while :; do sleep 1000; done) & three=$!
    read -r a
    printf '{"jsonrpc":"2.0","id":1,"result":[%s,%s,%s,%s]}\n' $$ $one $two $three
    while :; do sleep 1; done
"#;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == reaper::ARGUMENT => return reaper::run(args),
        Some(first) if first == "parent" => {
            run(parent());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    macro_rules! tests {
        ($($test:ident,)*) => {
            vec![$(Trial::test(stringify!($test), || {
                run($test());
                Ok(())
            }),)*]
        };
    }
    let tests = tests![
        killed_parent_leaves_no_process_behind,
        drop_kills_all_descendants,
        close_lets_a_child_exit_by_itself,
        close_kills_stubborn_descendants,
        exit_status_of_a_child_is_reported,
        missing_program_is_an_error,
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn kept(script: &str) -> Command {
    let command = Command::new("sh").args(["-c", script]);
    command.reaper(std::env::current_exe().unwrap())
}

fn client(script: &str) -> Client {
    Client::stdio(kept(script)).unwrap()
}

/// The ids of all processes of [`FAMILY`] once they run, and that of their reaper.
async fn family(client: &Client) -> Vec<i32> {
    let pids = client.request("m", &()).await.unwrap();
    let mut pids: Vec<i32> = serde_json::from_str(pids.get()).unwrap();
    pids.push(client.pid().unwrap().try_into().unwrap());
    pids
}

fn are_gone(pids: &[i32], within: Duration) {
    let until = Instant::now() + within;
    for pid in pids {
        let stat = format!("/proc/{pid}/stat");
        // A zombie is not gone: none may be left behind.
        while std::fs::read_to_string(&stat).is_ok() {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            assert!(
                Instant::now() < until,
                "{pid} of {pids:?} is there: {status:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The parent that is killed.
async fn parent() {
    let client = client(FAMILY);
    println!("{:?}", family(&client).await);
    client.closed().await;
}

async fn killed_parent_leaves_no_process_behind() {
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let mut pids: Vec<i32> = serde_json::from_str(&line).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The reaper itself is reaped by the init process of this machine.
    pids.pop();
    are_gone(&pids, Duration::from_secs(2));
}

async fn drop_kills_all_descendants() {
    let client = client(FAMILY);
    let pids = family(&client).await;
    drop(client);
    are_gone(&pids, Duration::from_secs(2));
}

async fn close_lets_a_child_exit_by_itself() {
    let client = client(
        r#"
        read -r a; echo '{"jsonrpc":"2.0","id":1,"result":1}'
        while read -r line; do last="$line"; done
        echo "$last" >&2; exit 0
        "#,
    );
    client.request("m", &()).await.unwrap();
    let began = Instant::now();
    client.close().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(client.closed().await, "it was closed");
    assert_eq!(client.pid(), None);
}

async fn close_kills_stubborn_descendants() {
    let client = client(FAMILY);
    let pids = family(&client).await;
    client.close().await;
    are_gone(&pids, Duration::ZERO);
}

async fn exit_status_of_a_child_is_reported() {
    for (script, end) in [
        ("read -r a; exit 3", "exit status: 3"),
        ("read -r a; kill -9 $$", "signal: 9 (SIGKILL)"),
        ("read -r a; kill $$", "signal: 15 (SIGTERM)"),
        ("read -r a; exec >&-; read -r b", "it closed its output"),
    ] {
        let client = client(script);
        let error = client.request("m", &()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the connection to sh has ended: {end}")
        );
        assert_eq!(client.closed().await, end);
    }
}

async fn missing_program_is_an_error() {
    for program in ["/no/such/program", "no-such-program"] {
        let command = Command::new(program).reaper(std::env::current_exe().unwrap());
        match Client::stdio(command).map(|_| ()) {
            Err(error @ Error::Unreachable { .. }) => assert!(error.was_not_sent()),
            other => panic!("{other:?}"),
        }
    }
}
