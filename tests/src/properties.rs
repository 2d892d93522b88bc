//! Property tests of the codec.

mod codec;
mod text;

use std::fmt::Debug;
use std::sync::Arc;

use mcp_core::server::{Caller, FrameReply, IncomingFrame, Server};
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

/// The answer of a server to a frame, in a runtime of its own.
fn answer(server: &Server, frame: &[u8]) -> FrameReply {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(server.handle(IncomingFrame {
        frame,
        headers: None,
        is_old_transport: false,
        connection: Some(Arc::default()),
        caller: Caller::default(),
    }))
}
