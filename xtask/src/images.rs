//! `cargo xtask images`: an image for each server that holds its program and the root certificates,
//! nothing else. No registry and no base image is asked, so it works without a network.

pub(crate) mod check;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::console::{line, say};
use crate::layout::{Layout, create_dir, on_path};
use crate::services::docker::install;

/// The programs, which name their images: `mcp-servers/NAME:local`, as docker-compose.yml wants it.
const SERVERS: [&str; 4] = [
    "n8n-mcp-server",
    "openhands-mcp-server",
    "docker-mcp-server",
    "mcp-gateway",
];

/// Where most systems keep the certificates that everybody trusts.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the programs, and hands them to the engine that the environment names; or checks that the
/// project comes up from them, on an engine of its own.
pub(crate) fn chore(layout: &Layout, release: bool, is_check: bool) -> anyhow::Result<ExitCode> {
    if let Some(obstacle) = obstacle() {
        bail!("{obstacle}: use the Dockerfile");
    }
    let programs = if release {
        programs::build(layout)?
    } else {
        programs::link(layout)?
    };
    if is_check {
        check::run(layout, &programs)?;
        line("ok       the project comes up, each server shut in as docker-compose.yml says");
        return Ok(ExitCode::SUCCESS);
    }
    load(layout, &programs, || {
        let mut docker = Command::new("docker");
        if on_path("docker").is_none() {
            docker.envs(install::environment(layout)?);
        }
        Ok(docker)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn obstacle() -> Option<&'static str> {
    let is_linux = cfg!(target_os = "linux");
    (!is_linux).then_some("the programs are built for this system, and images want Linux ones")
}

/// Makes the images in the engine that the commands of `docker` speak to.
fn load(
    layout: &Layout,
    programs: &Path,
    docker: impl Fn() -> anyhow::Result<Command>,
) -> anyhow::Result<()> {
    for server in SERVERS {
        let image = format!("mcp-servers/{server}:local");
        let root = lay_out(layout, &programs.join(server), server)?;
        import(docker()?, &root, &image)?;
        say("images", &image);
    }
    Ok(())
}

/// The file system of an image.
fn lay_out(layout: &Layout, program: &Path, server: &str) -> anyhow::Result<PathBuf> {
    let root = layout.backends().join("images").join(server);
    let certificates = root.join("etc/ssl/certs");
    create_dir(&certificates)?;
    fs::copy(program, root.join("server")).with_context(|| program.display().to_string())?;
    if Path::new(CERTIFICATES).exists() {
        fs::copy(CERTIFICATES, certificates.join("ca-certificates.crt"))?;
    }
    Ok(root)
}

fn import(mut docker: Command, root: &Path, image: &str) -> anyhow::Result<()> {
    let mut pack = Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf", "-", "-C"])
        .arg(root)
        .arg(".")
        .stdout(Stdio::piped())
        .spawn()
        .context("tar")?;
    let archive = pack.stdout.take().context("tar says nothing")?;
    let imported = docker
        .args(["import", "--change", "USER 65532:65532"])
        .args(["--change", r#"ENTRYPOINT ["/server"]"#, "-", image])
        .stdin(archive)
        .stdout(Stdio::null())
        .status()
        .context("the docker command is missing")?;
    if !pack.wait()?.success() || !imported.success() {
        bail!("the engine did not take {image}: is it running, and is DOCKER_HOST right?");
    }
    Ok(())
}
