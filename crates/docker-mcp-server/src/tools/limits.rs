//! Resource limits and restart policy of a container: set when it is created, changed later.

use super::prelude::*;

/// MiB; engines refuse less than six.
pub(super) type Megabytes = Bounded<6, 4_000_000>;

/// When the engine starts a container again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RestartPolicy {
    No,
    Always,
    UnlessStopped,
    OnFailure,
}

/// Memory as the engine counts it.
pub(super) fn memory_bytes(limit: Megabytes) -> i64 {
    i64::from(limit.get()) << 20
}

/// CPUs as the engine counts them.
pub(super) fn nano_cpus(cpus: f64) -> Result<i64, ToolError> {
    if !(0.01..=1024.0).contains(&cpus) {
        return Err(ToolError::invalid_argument(
            "cpus must be from 0.01 to 1024.",
        ));
    }
    // In range, so nothing is cut off.
    Ok((cpus * 1e9) as i64)
}
