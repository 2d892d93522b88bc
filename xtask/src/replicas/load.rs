//! Calls through nginx from many clients at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::cluster::BALANCER;
use crate::http::Client;

const CLIENTS: usize = 16;

#[derive(Default)]
pub(super) struct Measured {
    calls: usize,
    /// The calls that failed, by their reason.
    failed: BTreeMap<String, usize>,
    /// The longest time that a call took to fail.
    pub(super) slowest_failure: Duration,
}

pub(super) struct Load {
    clients: Vec<JoinHandle<Measured>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    /// Starts clients of both eras, each with a session of its own, or none.
    pub(super) fn start(clients: &[Client]) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let start = |number| {
            let (client, is_over) = (clients[BALANCER].clone(), Arc::clone(&is_over));
            thread::spawn(move || run(&client, number, &is_over))
        };
        Self {
            clients: (0..CLIENTS).map(start).collect(),
            is_over,
        }
    }

    pub(super) fn stop(self) -> Measured {
        self.is_over.store(true, Ordering::Relaxed);
        let mut sum = Measured::default();
        for client in self.clients {
            let Ok(one) = client.join() else { continue };
            sum.calls += one.calls;
            sum.slowest_failure = sum.slowest_failure.max(one.slowest_failure);
            for (why, count) in one.failed {
                *sum.failed.entry(why).or_default() += count;
            }
        }
        sum
    }

    /// Ends it; errors if a call failed.
    pub(super) fn stop_without_failures(self) -> Result<String> {
        let measured = self.stop();
        ensure!(measured.failed.is_empty(), "{}", measured.shown());
        Ok(measured.shown())
    }
}

impl Measured {
    fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    pub(super) fn failed_percent(&self) -> f64 {
        100.0 * self.failures() as f64 / self.calls.max(1) as f64
    }

    pub(super) fn shown(&self) -> String {
        let mut shown = format!("{} of {} calls failed", self.failures(), self.calls);
        if self.failures() > 0 {
            let slowest = self.slowest_failure.as_millis();
            shown += &format!(" {:?}, within {slowest} ms", self.failed);
        }
        shown
    }
}

fn run(client: &Client, number: usize, is_over: &AtomicBool) -> Measured {
    let mut measured = Measured::default();
    let mut session = String::new();
    while !is_over.load(Ordering::Relaxed) {
        if number.is_multiple_of(2) && session.is_empty() {
            session = client.open_session().unwrap_or_default();
        }
        let value = measured.calls * CLIENTS + number;
        let params = json!({"name": "echo", "arguments": {"value": value}});
        let started = Instant::now();
        let result = match session.is_empty() {
            true => client.modern("tools/call", params),
            false => client.ask(&session, "tools/call", params),
        };
        let time = started.elapsed();
        measured.calls += 1;
        let why = match result {
            Ok(result) if result["result"]["structuredContent"]["value"] == json!(value) => {
                continue;
            }
            Ok(result) => {
                let refused = result["error"]["message"].as_str();
                let text = refused.or_else(|| result["result"]["content"][0]["text"].as_str());
                format!("{:.80}", text.unwrap_or("another result"))
            }
            Err(error) => format!("{error:.60}"),
        };
        // As clients do after 404: its gateway may be gone.
        session.clear();
        measured.slowest_failure = measured.slowest_failure.max(time);
        *measured.failed.entry(why).or_default() += 1;
    }
    measured
}
