//! Tests of the log in a process that is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// The child process of the next test: writes until it is killed, and prints which events are written.
#[tokio::test]
async fn killed_child() {
    let Some(file) = std::env::var_os("MCP_GATEWAY_TEST_KILLED") else {
        return;
    };
    let database =
        Database::start(StoreLocation::File(file.into()), Retention::default(), None).unwrap();
    let log = &database.log;
    for n in 0.. {
        log.record(event(n));
        if n % 300 == 0 {
            log.find(Query::default()).await.unwrap();
            // Not `eprintln!`, which the test harness captures.
            use std::io::Write as _;
            writeln!(std::io::stderr(), "written {n}").unwrap();
        }
    }
}

#[test]
fn written_events_survive_a_kill() {
    let scratch = Scratch::new();
    for round in 0..50 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["events::tests::kill::killed_child", "--exact"])
            .arg("--nocapture")
            .env("MCP_GATEWAY_TEST_KILLED", scratch.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("written ")?.parse::<usize>().ok());
        // A little later in each round, to hit different moments of a batch.
        let mut last = lines.by_ref().nth(1 + round % 5).unwrap();
        (0..round * 1_000).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        last = lines.last().unwrap_or(last);
        child.wait().unwrap();

        let mut store = StoreLocation::File(scratch.file()).connect().unwrap();
        let found = found(&mut store, &Query::default().with_limit(MAX_QUERY_LIMIT));
        let newest = *found.last().unwrap();
        assert!(newest >= last, "round {round}: {newest} < {last}");
        // The events of this round have no gaps.
        let this_round = &found[found.len().saturating_sub(newest + 1)..];
        let has_gap = this_round.windows(2).any(|pair| pair[1] != pair[0] + 1);
        assert!(!has_gap, "round {round}");
        drop(store);
        let connection = rusqlite::Connection::open(scratch.file()).unwrap();
        let check = connection.query_row("pragma quick_check", [], |row| row.get(0));
        assert_eq!(check, Ok("ok".to_owned()), "round {round}");
    }
}
