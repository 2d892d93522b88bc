//! Counting what test binaries report.

use std::fmt;
use std::ops::AddAssign;

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
    /// The sum over all binaries of one `cargo test`.
    pub(crate) fn of(output: &str) -> Self {
        let mut sum = Self::default();
        for result in output
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("test result: "))
        {
            // "ok. 12 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s"
            let counts = result.split_once(". ").map_or(result, |(_, counts)| counts);
            for count in counts.split(';') {
                let mut words = count.split_whitespace();
                let Some(number) = words.next().and_then(|number| number.parse::<u64>().ok())
                else {
                    continue;
                };
                match words.next() {
                    Some("passed") => sum.passed += number,
                    Some("failed") => sum.failed += number,
                    Some("ignored" | "filtered") => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
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
        assert_eq!(
            Tally::of(output),
            Tally {
                passed: 15,
                failed: 2,
                skipped: 5
            }
        );
    }

    #[test]
    fn the_closing_line_is_plain() {
        let mut tally = Tally::of("error: could not compile");
        assert_eq!(tally.to_string(), "0 passed, 0 failed");
        tally += Tally {
            passed: 3,
            failed: 1,
            skipped: 2,
        };
        assert_eq!(tally.to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
