//! The repetition of tests that failed beside hundreds of others.
//!
//! Two processors run 845 tests beside a dozen real services, and a service that is slow for a moment fails
//! a test without a defect. Repeated alone, such a test passes; it is reported by name.

/// Tests of one stage that are repeated. More failures than these have a cause in the code.
const MAX_REPEATED: usize = 3;

/// Tests of a stage to run again, alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    /// The words after `cargo`.
    pub(super) words: String,
    pub(super) tests: Vec<String>,
}

impl Repetition {
    /// The failed tests of a stage with real services; `None` if there are too many, or if the stage did
    /// not fail by tests alone.
    ///
    /// `words` are the ones of the stage, `output` is what it printed.
    pub(super) fn from_output(words: &str, output: &str, failed: u64) -> Option<Self> {
        // The other stages have no list of filters.
        let (cargo, _) = words.split_once(" --no-fail-fast --")?;
        let tests = failed_tests(output);
        let is_whole = usize::try_from(failed) == Ok(tests.len());
        let is_few = (1..=MAX_REPEATED).contains(&tests.len());
        (is_whole && is_few).then(|| Self {
            words: format!("{cargo} --no-fail-fast -- --exact {}", tests.join(" ")),
            tests,
        })
    }
}

/// The names in the list with which the test harness ends.
fn failed_tests(output: &str) -> Vec<String> {
    let (_, list) = output.rsplit_once("\nfailures:\n").unwrap_or_default();
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
test a::works ... ok
test a::breaks ... FAILED

failures:

---- a::breaks stdout ----
failures:
    no name of a test

failures:
    a::breaks
    b::breaks

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn few_failed_tests_are_repeated_alone() {
        let stage = "test --package tests --no-fail-fast -- --skip docker";
        let repetition = Repetition::from_output(stage, OUTPUT, 2);
        let repetition = repetition.expect("two tests of two");
        assert_eq!(
            repetition.words,
            "test --package tests --no-fail-fast -- --exact a::breaks b::breaks"
        );
        assert_eq!(repetition.tests, ["a::breaks", "b::breaks"]);
    }

    #[test]
    fn other_failures_are_not_repeated() {
        let stage = "test --package tests --no-fail-fast --";
        // The program ended in the middle, or another one failed, too.
        assert_eq!(Repetition::from_output(stage, OUTPUT, 3), None);
        assert_eq!(Repetition::from_output(stage, "error: no", 1), None);
        let unit = "test --workspace --exclude tests --no-fail-fast";
        assert_eq!(Repetition::from_output(unit, OUTPUT, 2), None);
        let many = "\nfailures:\n    a\n    b\n    c\n    d\n\n";
        assert_eq!(Repetition::from_output(stage, many, 4), None);
    }
}
