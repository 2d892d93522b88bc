//! Programs that need no C library beside them: it becomes part of them, as there is none in an image.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::image::PROGRAMS;
use crate::cargo::BUILD;
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::Program;

/// The C library becomes part of the program.
const STATIC: &str = "target-feature=+crt-static";

/// What is not needed to run them is most of their size.
const STRIP: &str = "strip=symbols";

/// Builds optimised ones in a folder of their own; where they are.
pub(super) fn build(layout: &Layout) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = layout.target.join("static");
    let flags = format!(r#"target.{target}.rustflags=["-C","{STATIC}"]"#);
    let packages = PROGRAMS.iter().flat_map(|program| ["--package", program]);
    let cargo = Program::new("cargo")?
        .args(["build", "--release", "--target", &target, "--config"])
        .args([flags])
        .args(packages)
        .args(["--target-dir".as_ref(), folder.as_os_str()])
        .dir(&layout.root)
        .spawn()?;
    if !cargo.wait(&layout.stop, || {})?.success() {
        bail!("the servers could not be built");
    }
    Ok(folder.join(target).join("release"))
}

/// Links the libraries of the ordinary build once more, which takes seconds where that is there;
/// where the programs are.
pub(super) fn link(layout: &Layout) -> anyhow::Result<PathBuf> {
    let libraries = libraries(layout)?;
    let (_, any) = libraries.first().context("cargo has built nothing")?;
    let dependencies = any.parent().context("odd path")?.display();
    let dependencies = format!("dependency={dependencies}");
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
            .run(&layout.stop, Heartbeat::start("images", server))
            .with_context(|| format!("linking {server}: see {}", layout.shown(&log)))?;
    }
    Ok(folder)
}

/// The libraries of this workspace, by name, built where they are not yet.
fn libraries(layout: &Layout) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let log = layout.fresh_log("images-build")?;
    let step = "building the servers";
    Program::new("cargo")?
        .words(BUILD)
        .words("--message-format json-render-diagnostics")
        .dir(&layout.root)
        .log_to(&log)?
        .run(&layout.stop, Heartbeat::start("images", step))
        .with_context(|| format!("see {}", layout.shown(&log)))?;
    let said = fs::read_to_string(&log)?;
    // What cargo says to people is in between.
    let messages = said.lines().filter(|line| line.starts_with('{'));
    let found = messages.filter_map(|line| library(&serde_json::from_str(line).ok()?));
    Ok(found.collect())
}

/// The name and the file of a library of this workspace.
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
        let artifact = |package: &str, files: &[&str]| {
            json!({
                "reason": "compiler-artifact", "package_id": package, "target": {"name": "mcp-core"}, "filenames": files,
            })
        };
        let ours = artifact(
            "path+file:///w/crates/mcp-core#0.1.0",
            &["/t/libmcp_core-1.rlib", "/t/x.rmeta"],
        );
        let expected = (
            "mcp_core".to_owned(),
            PathBuf::from("/t/libmcp_core-1.rlib"),
        );
        assert_eq!(library(&ours), Some(expected));
        let others = [
            artifact("registry+https://example.test/index#x@1", &["/t/libx.rlib"]),
            artifact(
                "path+file:///w/crates/mcp-core#0.1.0",
                &["/t/debug/program"],
            ),
            json!({"reason": "build-finished", "success": true}),
        ];
        assert!(others.iter().all(|other| library(other).is_none()));
    }
}
