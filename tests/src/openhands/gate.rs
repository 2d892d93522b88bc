//! A shell command that ends when the test says so, instead of after a time.

use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

/// A file that the command waits for. The agent server is on this machine.
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
    /// Opens the gate, so that no task runs long after its test.
    fn drop(&mut self) {
        self.open();
        let path = self.0.clone();
        // The command checks ten times a second, so it has ended by then.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(5));
            let _ = std::fs::remove_file(path);
        });
    }
}
