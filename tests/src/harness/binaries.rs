//! Where the binaries under test are.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The path of a binary of the workspace. Built first where nobody says that it is
/// (`MCP_TEST_BIN_DIR`).
pub(crate) fn binary(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| match std::env::var_os("MCP_TEST_BIN_DIR") {
        Some(dir) => dir.into(),
        None => {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--workspace", "--bins"])
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
