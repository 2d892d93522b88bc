//! An image that is one program.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::console::say;
use crate::layout::{Layout, create_dir};
use crate::services::docker::cli::Cli;

/// The programs, which name their images: `mcp-servers/NAME:local`, as docker-compose.yml wants it.
pub(super) const PROGRAMS: [&str; 4] = [
    "n8n-mcp-server",
    "openhands-mcp-server",
    "docker-mcp-server",
    "mcp-gateway",
];

/// Where most systems keep the certificates that everybody trusts.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Returns the name of the image of a program.
pub(super) fn name(program: &str) -> String {
    format!("mcp-servers/{program}:local")
}

/// Makes the images in an engine.
pub(super) fn load(layout: &Layout, programs: &Path, cli: &Cli) -> anyhow::Result<()> {
    for program in PROGRAMS {
        let root = layout.backends().join("images").join(program);
        let certificates = root.join("etc/ssl/certs");
        create_dir(&certificates)?;
        let file = programs.join(program);
        fs::copy(&file, root.join("server")).with_context(|| file.display().to_string())?;
        if Path::new(CERTIFICATES).exists() {
            fs::copy(CERTIFICATES, certificates.join("ca-certificates.crt"))?;
        }
        let changes = ["USER 65532:65532", r#"ENTRYPOINT ["/server"]"#];
        cli.import(&root, &name(program), &changes)?;
        say("images", name(program));
    }
    Ok(())
}
