//! Children under a reaper. A program of its own, because it is its own reaper, and because one of
//! its parts is killed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it did"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use mcp_client::{Client, Command, Error, reaper};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Starts a child in its group, one in a session of its own, and one that hears no SIGTERM; tells
/// their ids; then goes on whatever its stdin says.
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
    let test = |name: &str, test: fn()| {
        test();
        println!("test {name} ... ok");
    };
    test(
        "nothing_survives_a_killed_parent",
        nothing_survives_a_killed_parent,
    );
    test("drop_kills_the_whole_family", || {
        run(drop_kills_the_whole_family())
    });
    test("close_lets_a_child_end_in_peace", || {
        run(close_lets_a_child_end_in_peace())
    });
    test("close_insists", || run(close_insists()));
    test("the_end_of_a_child_is_seen", || {
        run(the_end_of_a_child_is_seen())
    });
    test("a_program_that_is_not_there", || {
        run(a_program_that_is_not_there())
    });
    ExitCode::SUCCESS
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

/// The family's ids, as soon as all of it is there, with that of their reaper.
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
        // A zombie is gone, but nobody may leave one behind either.
        while std::fs::read_to_string(&stat).is_ok() {
            let status = || std::fs::read_to_string(format!("/proc/{pid}/status"));
            assert!(
                Instant::now() < until,
                "{pid} of {pids:?} is still there: {:?}",
                status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The part that is killed.
async fn parent() {
    let client = client(FAMILY);
    println!("{:?}", family(&client).await);
    client.closed().await;
}

fn nothing_survives_a_killed_parent() {
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let mut pids: Vec<i32> = serde_json::from_str(&line).unwrap();
    kill(
        Pid::from_raw(parent.id().try_into().unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    parent.wait().unwrap();
    // The reaper itself is left to whoever takes in orphans here.
    pids.pop();
    are_gone(&pids, Duration::from_secs(2));
}

async fn drop_kills_the_whole_family() {
    let client = client(FAMILY);
    let pids = family(&client).await;
    drop(client);
    are_gone(&pids, Duration::from_secs(2));
}

async fn close_lets_a_child_end_in_peace() {
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
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(client.closed().await, "it was closed");
    assert_eq!(client.pid(), None);
}

async fn close_insists() {
    let client = client(FAMILY);
    let pids = family(&client).await;
    client.close().await;
    are_gone(&pids, Duration::ZERO);
}

async fn the_end_of_a_child_is_seen() {
    for (script, end) in [
        ("read -r a; exit 3", "exit status: 3"),
        ("read -r a; kill -9 $$", "signal: 9 (SIGKILL)"),
        ("read -r a; kill $$", "signal: 15 (SIGTERM)"),
        ("read -r a; exec >&-; read -r b", "it closed its output"),
    ] {
        let client = client(script);
        let error = client.request("m", &()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("sh is gone: {end}"));
        assert_eq!(client.closed().await, end);
    }
}

async fn a_program_that_is_not_there() {
    for program in ["/no/such/program", "no-such-program"] {
        let command = Command::new(program).reaper(std::env::current_exe().unwrap());
        match Client::stdio(command).map(|_| ()) {
            Err(error @ Error::Unreachable { .. }) => assert!(error.was_not_sent()),
            other => panic!("{other:?}"),
        }
    }
}
