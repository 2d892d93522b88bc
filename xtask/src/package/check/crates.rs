//! The `.crate` archives, installed by `cargo install --offline` with an empty `CARGO_HOME` and a folder of crates
//! in the place of crates.io.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::{Context, answers, output};
use crate::console::Heartbeat;
use crate::layout::create_dir;
use crate::package::{WHO, archive};
use crate::process::Program;

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let root = context.fresh("crates")?;
    let (home, vendored) = (root.join("home"), root.join("vendored"));
    create_dir(&home)?;
    // The crates of others, as Cargo.lock has them.
    let vendor = Program::new("cargo")?.words("vendor --locked --versioned-dirs --quiet");
    let vendor = vendor.args([&vendored]).dir(&context.layout.root);
    let log = context.layout.fresh_log("package-vendor")?;
    let heartbeat = Heartbeat::start(WHO, "the crates of others");
    vendor
        .log_to(&log)?
        .run(&context.layout.shutdown, heartbeat)?;
    for file in context.files {
        let unpack = ["-C".as_ref(), vendored.as_os_str(), "-xzf".as_ref()];
        output(Command::new("tar").args(unpack).arg(file))?;
        let checksum = json!({"files": {}, "package": archive::sha256(&fs::read(file)?)});
        let folder = vendored.join(file.file_stem().unwrap_or_default());
        fs::write(folder.join(".cargo-checksum.json"), checksum.to_string())?;
    }
    fs::write(
        home.join("config.toml"),
        format!(
            "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = {vendored:?}\n"
        ),
    )?;
    for product in context.products {
        let log = context
            .layout
            .fresh_log(&format!("package-install-{}", product.name))?;
        let install = Program::new("cargo")?
            .words("install --offline --locked --debug --root")
            .args([&*root])
            .args([product.name])
            .dir(&root)
            .envs([
                ("CARGO_HOME", home.as_path()),
                (
                    "CARGO_TARGET_DIR",
                    &context.layout.target.join("package/install"),
                ),
            ]);
        let heartbeat = Heartbeat::start(WHO, format!("cargo install {}", product.name));
        install
            .log_to(&log)?
            .run(&context.layout.shutdown, heartbeat)?;
        let mut command = Command::new(root.join("bin").join(product.name));
        let command = command.arg("--stdio").env("HOME", &*root);
        answers(command, product, &context.build.version)?;
    }
    Ok(())
}
