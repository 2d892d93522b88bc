//! Counts the results of tests and of other steps.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::layout;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl TestCounts {
    pub(crate) const fn new(passed: u64, failed: u64, skipped: u64) -> Self {
        Self {
            passed,
            failed,
            skipped,
        }
    }

    /// Returns the counts of tests, or a failure with a line on the terminal.
    pub(crate) fn from_result(name: &str, result: Result<Self>) -> Self {
        result.unwrap_or_else(|error| {
            print_line!("FAILED   {name}: {error:#}");
            Self::new(0, 1, 0)
        })
    }

    /// Returns the count of a step, with a line on the terminal.
    pub(crate) fn of_step(name: &str, started: Instant, result: Result<()>) -> Self {
        let passed = result.map(|()| {
            let seconds = started.elapsed().as_secs_f32();
            print_line!("ok       {name} ({seconds:.1} s)");
            Self::new(1, 0, 0)
        });
        Self::from_result(name, passed)
    }

    /// Prints a line with the counts and the duration; after a failure also these failures and the path of the log.
    pub(crate) fn print<'a>(
        self,
        name: &str,
        started: Instant,
        failures: impl Iterator<Item = &'a str>,
        log: &Path,
    ) {
        let verdict = if self.failed == 0 { "ok" } else { "FAILED" };
        let seconds = started.elapsed().as_secs_f32();
        print_line!("{verdict:<8} {name}: {self} ({seconds:.1} s)");
        failures.for_each(|failure| print_line!("         {failure}"));
        if self.failed > 0 {
            print_line!("         full log: {}", layout::shown(log));
        }
    }

    /// Prints the sum of all steps; errors if one failed, or if nothing ran.
    pub(crate) fn print_sum(self) -> Result<()> {
        ensure!(self.failed == 0, "{self}");
        ensure!(self.passed > 0, "nothing ran: {self}");
        print_line!("{self}");
        Ok(())
    }

    /// Prints that a step is skipped and why; with `CI=true` that is a failure.
    pub(crate) fn skip(name: &str, why: &anyhow::Error) -> Self {
        print_line!("skipped  {name}: {why:#}");
        Self::skipped(std::env::var("CI").ok().as_deref())
    }

    fn skipped(ci: Option<&str>) -> Self {
        match ci {
            Some("true" | "1") => Self::new(0, 1, 0),
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

impl Sum for TestCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self::default();
        all.for_each(|one| sum += one);
        sum
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
    fn skipped_step_is_a_failure_in_ci() {
        for (ci, counts) in [
            (Some("true"), TestCounts::new(0, 1, 0)),
            (Some("1"), TestCounts::new(0, 1, 0)),
            (Some("false"), TestCounts::new(0, 0, 1)),
            (None, TestCounts::new(0, 0, 1)),
        ] {
            assert_eq!(TestCounts::skipped(ci), counts, "{ci:?}");
        }
    }

    /// The counts (passed, failed, skipped), whether the program succeeded, and the failures.
    #[test]
    fn program_that_fails_or_runs_nothing_is_a_failure() {
        for ([passed, failed, skipped], has_succeeded, failures) in [
            ([3, 0, 0], true, 0),
            ([3, 0, 0], false, 1),
            ([3, 2, 0], false, 2),
            ([0, 0, 0], true, 1),
            ([0, 0, 4], true, 1),
        ] {
            let counts = TestCounts::new(passed, failed, skipped);
            assert_eq!(counts.or_failed(has_succeeded).failed, failures, "{counts}");
        }
    }

    #[test]
    fn sum_without_a_success_is_an_error() {
        assert!(TestCounts::new(1, 0, 2).print_sum().is_ok());
        assert!(TestCounts::new(1, 1, 0).print_sum().is_err());
        assert!(TestCounts::new(0, 0, 2).print_sum().is_err());
        assert!(TestCounts::default().print_sum().is_err());
    }
}
