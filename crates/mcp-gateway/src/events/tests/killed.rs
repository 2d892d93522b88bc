//! The log of a process that is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Of the test below: writes until it is killed, and says what is safe.
#[test]
fn in_a_process_that_will_be_killed() {
    let Some(file) = std::env::var_os("MCP_GATEWAY_TEST_KILLED") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let log = Log::start(StoreLocation::File(file.into()), PLENTY).unwrap();
    for n in 0.. {
        log.record(event(n));
        if n % 300 == 0 {
            runtime.block_on(log.find(Query::default())).unwrap();
            // Past the test harness, which would keep it.
            use std::io::Write as _;
            writeln!(std::io::stderr(), "safe {n}").unwrap();
        }
    }
}

#[test]
fn what_was_written_survives_a_kill_in_the_midst_of_writing() {
    let scratch = Scratch::new();
    for round in 0..50 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "events::tests::killed::in_a_process_that_will_be_killed",
                "--exact",
                "--nocapture",
            ])
            .env("MCP_GATEWAY_TEST_KILLED", scratch.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut safe = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("safe ")?.parse::<usize>().ok());
        // Each time a little later, at another moment of a batch.
        let mut last = safe.by_ref().nth(1 + round % 5).unwrap();
        (0..round * 1_000).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        last = safe.last().unwrap_or(last);
        child.wait().unwrap();

        let mut store = StoreLocation::File(scratch.file()).open().unwrap();
        let query = Query::default().with_limit(MAX_LIMIT);
        let found: Vec<_> = store.find(&query).unwrap().iter().map(number).collect();
        let newest = *found.last().unwrap();
        assert!(
            newest >= last,
            "round {round}: {newest} is written, {last} was safe"
        );
        // No gaps within what this round wrote.
        let this_round = &found[found.len().saturating_sub(newest + 1)..];
        assert!(
            this_round.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "round {round}"
        );
        drop(store);
        let check = rusqlite::Connection::open(scratch.file()).unwrap();
        let verdict: String = check
            .query_row("pragma quick_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok", "round {round}");
    }
}
