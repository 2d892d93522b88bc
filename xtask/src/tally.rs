//! Counting what tests report.

use std::fmt;
use std::ops::AddAssign;

use crate::console::line;
use crate::install::Unavailable;

/// How many tests there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and found nothing wrong.
    pub(crate) passed: u64,
    /// Tests that found something wrong, and steps that failed as a whole.
    pub(crate) failed: u64,
    /// Tests that did not run.
    pub(crate) skipped: u64,
}

impl Tally {
    /// One test that found nothing wrong.
    pub(crate) const PASSED: Self = Self::new(1, 0, 0);
    /// One that did.
    pub(crate) const FAILED: Self = Self::new(0, 1, 0);

    /// So many of each.
    pub(crate) const fn new(passed: u64, failed: u64, skipped: u64) -> Self {
        Self {
            passed,
            failed,
            skipped,
        }
    }

    /// Sums up all binaries of one `cargo test`.
    pub(crate) fn from_cargo(output: &str) -> Self {
        let mut sum = Self::default();
        let lines = output.lines().map(str::trim_start);
        for result in lines.filter_map(|line| line.strip_prefix("test result: ")) {
            // "ok. 12 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s"
            for count in result.split(['.', ';']) {
                let mut words = count.split_whitespace();
                let number = words.next().and_then(|word| word.parse().ok());
                match (number, words.next()) {
                    (Some(number), Some("passed")) => sum += Self::new(number, 0, 0),
                    (Some(number), Some("failed")) => sum += Self::new(0, number, 0),
                    (Some(number), Some("ignored" | "filtered")) => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
    }

    /// Takes what came of a part of the work, with a line when it failed as a whole or was left out.
    pub(crate) fn from_result(name: &str, result: anyhow::Result<Self>) -> Self {
        match result {
            Ok(tally) => tally,
            Err(error) if error.is::<Unavailable>() => Self::left_out(name, &format!("{error:#}")),
            Err(error) => {
                line(format_args!("FAILED   {name}: {error:#}"));
                Self::FAILED
            }
        }
    }

    /// Says that something is left out and why, which is a failure where nothing may be.
    pub(crate) fn left_out(name: &str, why: &str) -> Self {
        line(format_args!("skipped  {name}: {why}"));
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
        if is_ci {
            Self::FAILED
        } else {
            Self::new(0, 0, 1)
        }
    }

    /// The same, as failed if it was: what did not fail must have passed something and ended well.
    pub(crate) fn or_failed(mut self, has_succeeded: bool) -> Self {
        if self.failed == 0 && (!has_succeeded || self.passed == 0) {
            self.failed = 1;
        }
        self
    }

    /// The first word of the line about it.
    pub(crate) fn verdict(self) -> &'static str {
        if self.failed == 0 { "ok" } else { "FAILED" }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
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
    fn sums_over_all_binaries() {
        let output = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)
running 2 tests
test a ... ok
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 1.20s
   Doc-tests a
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(Tally::from_cargo(output), Tally::new(15, 2, 5));
    }

    #[test]
    fn the_closing_line_is_plain() {
        let mut tally = Tally::from_cargo("error: could not compile");
        assert_eq!(tally.to_string(), "0 passed, 0 failed");
        tally += Tally::new(3, 1, 2);
        assert_eq!(tally.to_string(), "3 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn what_breaks_off_or_tests_nothing_has_failed() {
        assert_eq!(Tally::PASSED.or_failed(true), Tally::PASSED);
        assert_eq!(Tally::PASSED.or_failed(false).failed, 1);
        assert_eq!(Tally::default().or_failed(true).failed, 1);
    }
}
