//! `cargo xtask images`: builds an image for each server that holds its program and the root
//! certificates, nothing else. It needs no registry, no base image and no network.

pub(crate) mod check;
mod static_link;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::args::Options;

use crate::layout::{Layout, create_dir};
use crate::services::docker::cli::Cli;

const PROGRAMS: [&str; 4] = [
    "n8n-mcp-server",
    "openhands-mcp-server",
    "docker-mcp-server",
    "mcp-gateway",
];

/// The file of root certificates on most systems.
pub(crate) const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the programs and imports them into the engine that the environment names; or checks that
/// the compose project starts from them, on its own engine.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        bail!(
            "the programs are built for this system, and images need Linux ones: use the Dockerfile"
        );
    }
    let programs = static_programs(layout, options.has("release"), &PROGRAMS)?;
    if options.has("check") {
        check::run(layout, &programs)?;
        print_line!("ok       the project starts, each server isolated as in docker-compose.yml");
    } else {
        import(layout, &programs, &Cli::for_user(layout)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds these programs, if optimised, or else all, without the need of a C library; returns their folder.
pub(crate) fn static_programs(
    layout: &Layout,
    release: bool,
    programs: &[&str],
) -> anyhow::Result<PathBuf> {
    if release {
        static_link::build_release(layout, programs)
    } else {
        static_link::link_debug(layout)
    }
}

/// Returns the image of a program, as in docker-compose.yml.
fn image(program: &str) -> String {
    format!("mcp-servers/{program}:local")
}

fn import(layout: &Layout, programs: &Path, cli: &Cli) -> anyhow::Result<()> {
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
        cli.import(&root, &image(program), &changes)?;
        print_as!("images", "{}", image(program));
    }
    Ok(())
}
