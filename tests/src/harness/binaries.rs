//! Finds the binaries under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of a program of the workspace. All are built first, unless `MCP_TEST_BIN_DIR` says
/// where they are.
pub(crate) fn binary(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| match std::env::var_os("MCP_TEST_BIN_DIR") {
        Some(dir) => dir.into(),
        None => {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--workspace", "--bins", "--examples"])
                .status();
            assert!(
                built.is_ok_and(|status| status.success()),
                "the binaries cannot be built"
            );
            // target/debug/deps/it-…
            let this = std::env::current_exe().unwrap();
            this.ancestors().nth(2).unwrap().to_owned()
        }
    })
    .join(name)
}
