//! A command that ends when the test says so, not when a time is over.

use std::path::PathBuf;

use uuid::Uuid;

/// Closed at first; the agent server is on this machine.
pub(super) struct Gate(PathBuf);

impl Gate {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("gate-{}", Uuid::new_v4())))
    }

    /// A shell command that ends once the gate is open.
    pub(super) fn pass(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.1; done", self.0.display())
    }

    pub(super) fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Gate {
    /// What still waits goes on, so that no task outlives its test for long.
    fn drop(&mut self) {
        self.open();
        let path = self.0.clone();
        // Whoever looks ten times a second has seen it by then.
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_secs(5));
            let _ = std::fs::remove_file(path);
        });
    }
}
