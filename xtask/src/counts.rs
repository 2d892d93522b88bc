//! Counts the results of tests.

use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Instant;

use anyhow::bail;

use crate::install::Unavailable;
use crate::layout::Layout;
use crate::parallel;

/// The numbers of tests with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    /// Tests that failed, and steps that failed as a whole.
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl TestCounts {
    pub(crate) const PASSED: Self = Self::new(1, 0, 0);
    pub(crate) const FAILED: Self = Self::new(0, 1, 0);

    pub(crate) const fn new(passed: u64, failed: u64, skipped: u64) -> Self {
        Self {
            passed,
            failed,
            skipped,
        }
    }

    /// Adds up all binaries of one `cargo test`.
    pub(crate) fn from_cargo(output: &str) -> Self {
        let mut sum = Self::default();
        let lines = output.lines().map(str::trim_start);
        for result in lines.filter_map(|line| line.strip_prefix("test result: ")) {
            // "ok. 12 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s"
            for count in result.split(['.', ';']) {
                let mut words = count.split_whitespace();
                let number = words.next().and_then(|word| word.parse::<u64>().ok());
                match (number, words.next()) {
                    (Some(number), Some("passed")) => sum.passed += number,
                    (Some(number), Some("failed")) => sum.failed += number,
                    (Some(number), Some("ignored" | "filtered")) => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
    }

    /// Returns the counts of a step, with a line on the terminal if it failed as a whole or was
    /// skipped.
    pub(crate) fn from_result(name: &str, result: anyhow::Result<Self>) -> Self {
        match result {
            Ok(counts) => counts,
            Err(error) if error.is::<Unavailable>() => Self::skip(name, &format!("{error:#}")),
            Err(error) => {
                print_line!("FAILED   {name}: {error:#}");
                Self::FAILED
            }
        }
    }

    /// Runs the tests of all items at the same time and adds up their results.
    ///
    /// # Errors
    /// When a shutdown was requested.
    pub(crate) fn run_each<'a, T: Sync>(
        layout: &Layout,
        items: &'a [T],
        name: impl Fn(&T) -> &str,
        work: impl Fn(&'a T) -> anyhow::Result<Self> + Sync,
    ) -> anyhow::Result<Self> {
        let results = parallel::map(items, work);
        if layout.shutdown.requested() {
            bail!("stopped");
        }
        let mut sum = Self::default();
        for (item, result) in items.iter().zip(results) {
            sum += Self::from_result(name(item), result);
        }
        Ok(sum)
    }

    /// Prints a line with the counts and the duration; after a failure also these failures and the
    /// path of the log.
    pub(crate) fn print(
        self,
        layout: &Layout,
        name: &str,
        started: Instant,
        failures: impl IntoIterator<Item = String>,
        log: &Path,
    ) {
        let verdict = if self.failed == 0 { "ok" } else { "FAILED" };
        let seconds = started.elapsed().as_secs_f32();
        print_line!("{verdict:<8} {name}: {self} ({seconds:.1} s)");
        for failure in failures {
            print_line!("         {failure}");
        }
        if self.failed > 0 {
            print_line!("         full log: {}", layout.shown(log));
        }
    }

    /// Prints that a step is skipped and why; with `CI=true` that is a failure.
    pub(crate) fn skip(name: &str, why: &str) -> Self {
        print_line!("skipped  {name}: {why}");
        match std::env::var("CI").as_deref() {
            Ok("true" | "1") => Self::FAILED,
            _ => Self::new(0, 0, 1),
        }
    }

    /// Adds a failure if the program failed without one, or no test passed.
    pub(crate) fn or_failed(mut self, has_succeeded: bool) -> Self {
        if self.failed == 0 && (!has_succeeded || self.passed == 0) {
            self.failed = 1;
        }
        self
    }
}

impl AddAssign for TestCounts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_binaries_are_added_up() {
        let output = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)
running 2 tests
test a ... ok
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 1.20s
   Doc-tests a
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(TestCounts::from_cargo(output), TestCounts::new(15, 2, 5));
        let none = TestCounts::from_cargo("error: could not compile");
        assert_eq!(none.to_string(), "0 passed, 0 failed");
        let some = TestCounts::new(3, 1, 2);
        assert_eq!(some.to_string(), "3 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn steps_that_abort_or_test_nothing_have_failed() {
        assert_eq!(TestCounts::PASSED.or_failed(true), TestCounts::PASSED);
        assert_eq!(TestCounts::PASSED.or_failed(false).failed, 1);
        assert_eq!(TestCounts::default().or_failed(true).failed, 1);
    }
}
