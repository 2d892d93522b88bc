//! Property tests of the codec and the header check.

mod codec;
mod headers;
mod text;

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

/// Runs `check` on many values; a failure shows the smallest value.
#[track_caller]
fn for_all<S: Strategy>(cases: u32, values: &S, check: impl Fn(S::Value) -> TestCaseResult)
where
    S::Value: Debug,
{
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(values, check) {
        panic!("{failure}");
    }
}

/// Runs a future to its end, in a runtime of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}
