//! The program that checks metrics, alert rules and the expressions of the dashboard.

use std::path::PathBuf;

use crate::install::debian::DebianPackages;
use crate::layout::{Layout, on_path};

/// It is a part of Debian's package of the server.
const PACKAGES: DebianPackages = DebianPackages::new("prometheus", &["prometheus"]);

/// Installs it unless it is there. Returns the variable with which the tests find it.
pub(super) fn install(layout: &Layout) -> (&'static str, anyhow::Result<PathBuf>) {
    let installed = || match on_path("promtool") {
        Some(program) => Ok(program),
        None => {
            PACKAGES.install(layout)?;
            Ok(PACKAGES.root(layout).join("usr/bin/promtool"))
        }
    };
    ("MCP_TEST_PROMTOOL", installed())
}
