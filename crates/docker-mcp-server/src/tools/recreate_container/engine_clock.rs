//! The engine's clock.

use serde_json::Value;

use super::super::prelude::*;
use crate::engine::Engine;
use crate::unix_time;

/// The engine's clock: containers are dated by it, and it may differ from ours.
pub(super) struct EngineClock {
    /// Seconds by which it is ahead.
    ahead: i64,
}

impl EngineClock {
    pub(super) async fn read(engine: &Engine) -> Self {
        let info: Value = engine.try_get(Path::to("/info")).await.unwrap_or_default();
        let now = info["SystemTime"]
            .as_str()
            .and_then(unix_time::from_timestamp);
        Self {
            ahead: now.map_or(0, |now| now - unix_time::now()),
        }
    }

    /// The time since this one.
    pub(super) fn age(&self, timestamp: &str) -> Duration {
        let then = unix_time::from_timestamp(timestamp).unwrap_or(0);
        let seconds = unix_time::now() + self.ahead - then;
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_counted_by_the_engines_clock() {
        let now = unix_time::now();
        for (ahead, started, expected) in [(3600, 3593, 7), (-3600, -3607, 7), (0, 60, 0)] {
            let age = EngineClock { ahead }.age(&rfc3339(now + started)).as_secs();
            assert!(
                (expected..=expected + 1).contains(&age),
                "{ahead} {started}: {age}"
            );
        }
    }
}
