//! Builds programs that need no C library beside them, because the images have none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::PROGRAMS;
use crate::cargo::BUILD;
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::Program;

/// Links the C library into the program.
const STATIC: &str = "target-feature=+crt-static";

/// Symbols are most of a program's size.
const STRIP: &str = "strip=symbols";

/// Builds optimised programs in a target folder of their own; returns the folder of the programs.
pub(super) fn build_release(layout: &Layout, programs: &[&str]) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = layout.target.join("static");
    let flags = format!(r#"target.{target}.rustflags=["-C","{STATIC}"]"#);
    let cargo = Program::new("cargo")?
        .args(["build", "--release", "--target", &target, "--config"])
        .args([flags])
        .args(programs.iter().flat_map(|program| ["--package", program]))
        .args(["--target-dir".as_ref(), folder.as_os_str()])
        .dir(&layout.root);
    if !cargo.succeeds(&layout.shutdown, None)? {
        bail!("the servers could not be built");
    }
    Ok(folder.join(target).join("release"))
}

/// Links the libraries of the normal build again, which takes seconds if that exists; returns the
/// folder of the programs.
pub(super) fn link_debug(layout: &Layout) -> anyhow::Result<PathBuf> {
    let libraries = libraries(layout)?;
    let (_, any) = libraries.first().context("cargo has built nothing")?;
    let dependencies = any.parent().context("a library without a folder")?;
    let dependencies = format!("dependency={}", dependencies.display());
    let folder = layout.backends().join("static");
    create_dir(&folder)?;
    let log = layout.fresh_log("images-link")?;
    for server in PROGRAMS {
        let externs = libraries
            .iter()
            .flat_map(|(name, file)| ["--extern".into(), format!("{name}={}", file.display())]);
        Program::new("rustc")?
            .args(["--crate-name", "server", "--edition", "2024"])
            .args(["-C", STATIC, "-C", STRIP, "-L", &dependencies])
            .args(externs)
            .args(["-o".as_ref(), folder.join(server).as_os_str()])
            .args([format!("crates/{server}/src/main.rs")])
            .dir(&layout.root)
            .log_to(&log)?
            .run(&layout.shutdown, Heartbeat::start("images", server))
            .with_context(|| format!("linking {server}: see {}", layout.shown(&log)))?;
    }
    Ok(folder)
}

/// Builds the workspace; returns its libraries, each with its crate's name.
fn libraries(layout: &Layout) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let log = layout.fresh_log("images-build")?;
    Program::new("cargo")?
        .words(BUILD)
        .words("--message-format json-render-diagnostics")
        .dir(&layout.root)
        .log_to(&log)?
        .run(
            &layout.shutdown,
            Heartbeat::start("images", "building the servers"),
        )
        .with_context(|| format!("see {}", layout.shown(&log)))?;
    let output = fs::read_to_string(&log)?;
    // Messages for people are in between.
    let messages = output.lines().filter(|line| line.starts_with('{'));
    let found = messages.filter_map(|line| library(&serde_json::from_str(line).ok()?));
    Ok(found.collect())
}

/// Returns the crate's name and the file if this message of cargo is about a library of the workspace.
fn library(message: &Value) -> Option<(String, PathBuf)> {
    let is_ours = message["package_id"].as_str()?.starts_with("path+file:");
    let name = message["target"]["name"].as_str()?;
    let mut files = message["filenames"].as_array()?.iter();
    let file = files.find_map(|file| file.as_str().filter(|file| file.ends_with(".rlib")))?;
    is_ours.then(|| (name.replace('-', "_"), Path::new(file).to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_libraries_of_the_workspace_are_linked() {
        let ours = "path+file:///w/crates/mcp-core#0.1.0";
        let other = "registry+https://example.test/index#x@1";
        let found = |package: &str, files: &[&str]| {
            library(
                &json!({"package_id": package, "target": {"name": "mcp-core"}, "filenames": files}),
            )
        };
        let expected = (
            "mcp_core".to_owned(),
            PathBuf::from("/t/libmcp_core-1.rlib"),
        );
        let files = ["/t/libmcp_core-1.rlib", "/t/x.rmeta"];
        assert_eq!(found(ours, &files), Some(expected));
        assert_eq!(found(other, &["/t/libx.rlib"]), None);
        assert_eq!(found(ours, &["/t/debug/program"]), None);
        let finished = json!({"reason": "build-finished", "success": true});
        assert_eq!(library(&finished), None);
    }
}
