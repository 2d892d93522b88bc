//! `cargo xtask images`: an image for each server that holds its program and the root certificates,
//! nothing else. No registry and no base image is asked, so it works without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::console::say;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Program;
use crate::services::docker::install;

/// The programs, which name their images: `mcp-servers/NAME:local`, as docker-compose.yml wants it.
const SERVERS: [&str; 4] = [
    "n8n-mcp-server",
    "openhands-mcp-server",
    "docker-mcp-server",
    "mcp-gateway",
];

/// The C library becomes part of the program: there is none in the image.
const STATIC: &str = r#"rustflags=["-C","target-feature=+crt-static"]"#;

/// Where most systems keep the certificates that everybody trusts.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the programs, and hands them to the engine that the environment names.
pub(crate) fn chore(layout: &Layout, release: bool) -> anyhow::Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        bail!(
            "the programs are built for this system, and images want Linux ones: use the Dockerfile"
        );
    }
    let programs = build(layout, release)?;
    for server in SERVERS {
        let image = format!("mcp-servers/{server}:local");
        let root = lay_out(layout, &programs.join(server), server)?;
        import(layout, &root, &image)?;
        say("images", &image);
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds in a folder of its own, so that other builds need not be repeated; where the programs are.
fn build(layout: &Layout, release: bool) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = layout.target.join("static");
    let mut args = vec!["build".to_owned(), "--target".to_owned(), target.clone()];
    args.extend(["--config".to_owned(), format!("target.{target}.{STATIC}")]);
    args.extend(
        SERVERS
            .iter()
            .flat_map(|server| ["--package".to_owned(), (*server).to_owned()]),
    );
    args.extend(release.then(|| "--release".to_owned()));
    let cargo = Program::new("cargo")?
        .args(args)
        .args(["--target-dir".as_ref(), folder.as_os_str()])
        // What is not needed to run them is most of their size.
        .envs([("CARGO_PROFILE_DEV_STRIP", "symbols")])
        .dir(&layout.root)
        .spawn()?;
    if !cargo.wait(&layout.stop, || {})?.success() {
        bail!("the servers could not be built");
    }
    let profile = if release { "release" } else { "debug" };
    Ok(folder.join(target).join(profile))
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

fn import(layout: &Layout, root: &Path, image: &str) -> anyhow::Result<()> {
    let mut pack = Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf", "-", "-C"])
        .arg(root)
        .arg(".")
        .stdout(Stdio::piped())
        .spawn()
        .context("tar")?;
    let archive = pack.stdout.take().context("tar says nothing")?;
    let mut docker = Command::new("docker");
    if on_path("docker").is_none() {
        docker.envs(install::environment(layout)?);
    }
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
