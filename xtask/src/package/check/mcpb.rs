//! Bundles: their manifests validated by `@anthropic-ai/mcpb`, unpacked by it and started as hosts start them,
//! with its own function that expands a manifest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Context, answers, output};
use crate::install::{Package, unavailable};
use crate::layout::{Layout, on_path};

const MANIFEST: &str = include_str!("../../../backends/mcpb/package.json");
const LOCK: &str = include_str!("../../../backends/mcpb/package-lock.json");

/// Prints the command of a bundle in a folder, with a form in which only the required fields are filled.
const EXPAND: &str = r#"
import { readFileSync } from "node:fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";
const folder = process.argv[1];
const manifest = JSON.parse(readFileSync(folder + "/manifest.json", "utf8"));
const needed = Object.entries(manifest.user_config).filter(([, field]) => field.required);
const options = { manifest, extensionPath: folder, systemDirs: {}, pathSeparator: "/", logger: console };
const blank = await getMcpConfigForManifest({ ...options, userConfig: {} });
if (needed.length > 0 && blank) throw new Error("it starts without what is required");
const value = ([key, field]) => [key, field.type === "file" ? process.argv[2] : "a-value"];
const userConfig = Object.fromEntries(needed.map(value));
process.stdout.write(JSON.stringify(await getMcpConfigForManifest({ ...options, userConfig })));
"#;

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let tools = install(context.layout)?;
    let root = context.fresh("mcpb")?;
    // An empty configuration, for programs that need one.
    let file = root.join("empty.toml");
    std::fs::write(&file, "")?;
    let mcpb = |words: &[&str], files: &[&Path]| {
        let program = tools.join("node_modules/.bin/mcpb");
        output(Command::new(program).args(words).args(files))
    };
    for (product, bundle) in context.products.iter().zip(context.files) {
        let folder = root.join(product.name);
        mcpb(&["unpack"], &[bundle, &folder])?;
        mcpb(&["validate"], &[&folder.join("manifest.json")])?;
        let mut node = Command::new("node");
        node.args(["--input-type=module", "--eval", EXPAND])
            .args([&folder, &file])
            .current_dir(&tools);
        let config: Value = serde_json::from_str(&output(&mut node)?)?;
        let mut command = command(&config)?;
        answers(command.env("HOME", &*root), product, &context.build.version)?;
    }
    Ok(())
}

/// Returns the command that a host would start.
fn command(config: &Value) -> anyhow::Result<Command> {
    ensure!(!config.to_string().contains("${"), "not expanded: {config}");
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
    let mut command = Command::new(text(&config["command"])?);
    for argument in config["args"].as_array().into_iter().flatten() {
        command.arg(text(argument)?);
    }
    for (name, value) in config["env"].as_object().into_iter().flatten() {
        command.env(name, text(value)?);
    }
    Ok(command)
}

/// Installs the validators; returns their folder.
pub(super) fn install(layout: &Layout) -> anyhow::Result<PathBuf> {
    let npm = on_path("npm").ok_or_else(|| unavailable("no npm found"))?;
    let package = Package::new(layout, "package", "mcpb");
    package.install(LOCK, |dir| {
        std::fs::write(dir.join("package.json"), MANIFEST)?;
        std::fs::write(dir.join("package-lock.json"), LOCK)?;
        package.run(
            "downloading the validators",
            &npm,
            "ci --ignore-scripts --omit=optional",
        )
    })?;
    Ok(package.dir)
}
