//! `cargo nextest`, which runs each test in a process of its own: `.config/nextest.toml` says how many at once.

use std::ffi::OsString;
use std::fs;
use std::time::Instant;

use anyhow::{Context as _, anyhow};

use crate::checks;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::layout::{Layout, on_path, path_with};
use crate::process::Program;
use crate::services::Environment;

/// Lines of a failed run on the terminal.
const MAX_SHOWN_LINES: usize = 300;

/// The programs with which cargo finds nextest.
#[derive(Debug)]
pub(crate) struct Nextest(Option<OsString>);

impl Nextest {
    /// Installs it unless cargo has it.
    pub(crate) fn install(layout: &Layout) -> anyhow::Result<Self> {
        if on_path("cargo-nextest").is_some() {
            return Ok(Self(None));
        }
        // Not as something that this machine lacks, since all tests would be skipped.
        let programs = checks::programs(layout).map_err(|error| anyhow!("{error:#}"))?;
        Ok(Self(Some(path_with([programs])?)))
    }

    /// Runs the tests of a stage, with one line about it, and the end of its output if a test failed. `words` are
    /// options of `cargo nextest run --workspace`; `filter` chooses the tests in its language.
    pub(crate) fn run(
        &self,
        layout: &Layout,
        name: &str,
        (words, filter): (&str, &str),
        env: &Environment,
    ) -> anyhow::Result<TestCounts> {
        let started = Instant::now();
        let log = layout.fresh_log(&format!("test-{name}"))?;
        let heartbeat = Heartbeat::start("test", name.to_owned());
        let path = self.0.iter().map(|path| ("PATH", path));
        let run = Program::new("cargo")?
            .words("nextest run --workspace --no-fail-fast --color never")
            .words(words)
            .args(["-E", filter])
            .envs([("MCP_TEST_BIN_DIR", layout.binaries(false))])
            .envs(env.iter().map(|(key, value)| (key, value)))
            .envs(path)
            .dir(&layout.root)
            .log_to(&log)?;
        let is_good = run.succeeds(&layout.shutdown, Some(heartbeat))?;
        let output = fs::read(&log).context("the output of nextest")?;
        let output = String::from_utf8_lossy(&output);
        // A filter that matches no test any more must not pass.
        let counts = counts(&output).or_failed(is_good);
        if counts.failed > 0 {
            let lines: Vec<_> = output.lines().collect();
            let first = lines.len().saturating_sub(MAX_SHOWN_LINES);
            print_line!("{}", lines[first..].join("\n"));
        }
        counts.print(layout, name, started, [], &log);
        Ok(counts)
    }
}

/// Reads the summary.
fn counts(output: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    let summary = output.lines().rfind(|line| line.contains("Summary ["));
    // "     Summary [ 4.062s] 9/12 tests run: 6 passed (1 slow), 2 failed, 1 timed out, 0 skipped"
    let Some((begun, results)) = summary.and_then(|line| line.split_once("run: ")) else {
        return counts;
    };
    // A test that was left out did not pass.
    let begun = begun
        .split_whitespace()
        .find_map(|word| word.split_once('/'));
    let left_out =
        begun.and_then(|(run, all)| all.parse::<u64>().ok()?.checked_sub(run.parse().ok()?));
    counts.failed += left_out.unwrap_or(0);
    for result in results.split(", ") {
        let mut words = result.split_whitespace();
        let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.next() {
            Some("passed") => counts.passed += number,
            Some("failed" | "timed" | "exec") => counts.failed += number,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_read() {
        for (output, expected) in [
            (
                "     Summary [   4.062s] 6 tests run: 6 passed, 0 skipped",
                TestCounts::new(6, 0, 0),
            ),
            (
                "a\n     Summary [  99s] 9/12 tests run: 5 passed (1 slow, 2 leaky), 2 failed, 1 timed out, 1 exec failed, 3 skipped\n  FAIL",
                TestCounts::new(5, 7, 0),
            ),
            ("error: could not compile", TestCounts::default()),
        ] {
            assert_eq!(counts(output), expected);
        }
    }
}
