//! `cargo xtask package`: makes packages of the programs in `target/dist`, and with `--check` installs each
//! in a fresh root and calls it there.
//!
//! One package for each program, named as the program: a machine needs the server of its own service or the
//! gateway, a package names one command, one unit and one port, and no machine has options of a service that
//! it does not have.

mod archive;
mod build;
mod check;
mod crates;
mod elf;
mod files;
mod homebrew;
mod linux;
mod mcpb;
mod npm;
mod oci;
mod product;
mod registry;
mod sbom;
mod server_json;
mod tar;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};

use crate::args::Options;
use crate::layout::{Layout, create_dir};

pub(crate) use build::{Build, WHO};
pub(crate) use product::Product;

/// The sums of all packages.
const SUMS: &str = "SHA256SUMS";

/// The programs, each with a package of its own.
const PROGRAMS: [&str; 4] = [
    "docker-mcp-server",
    "n8n-mcp-server",
    "openhands-mcp-server",
    "mcp-gateway",
];

/// A kind of packages.
struct Format {
    /// The name for `--only`.
    name: &'static str,
    /// Returns true if there are such packages for this target.
    is_for: fn(&Build) -> bool,
    /// Writes the packages into the folder and returns their files.
    build: fn(&[Product], &Build, &Path) -> anyhow::Result<Vec<PathBuf>>,
    /// Installs the packages that `build` has written in a fresh root, and calls the programs there.
    check: fn(&check::Context<'_>) -> anyhow::Result<()>,
}

const FORMATS: [Format; 11] = [
    Format {
        name: "tar",
        is_for: |_| true,
        build: tar::build,
        check: check::tar::check,
    },
    Format {
        name: "sbom",
        is_for: |_| true,
        build: sbom::build,
        check: check::sbom::check,
    },
    Format {
        name: "deb",
        is_for: is_linux,
        build: linux::deb,
        check: check::linux::deb,
    },
    Format {
        name: "rpm",
        is_for: is_linux,
        build: linux::rpm,
        check: check::linux::rpm,
    },
    Format {
        name: "npm",
        is_for: |_| true,
        build: npm::build,
        check: check::npm::check,
    },
    Format {
        name: "wheel",
        is_for: |_| true,
        build: wheel::build,
        check: check::wheel::check,
    },
    Format {
        name: "mcpb",
        is_for: |_| true,
        build: mcpb::build,
        check: check::mcpb::check,
    },
    Format {
        name: "oci",
        // The programs of an image are linked again without a C library; `--only oci` takes programs that are so.
        is_for: |build| build.os == "linux" && build.is_native(),
        build: oci::build,
        check: check::oci::check,
    },
    Format {
        name: "crates",
        // Sources are the same for all targets.
        is_for: Build::is_native,
        build: crates::build,
        check: check::crates::check,
    },
    // These two are made from packages above, of all targets that are in the folder.
    Format {
        name: "homebrew",
        is_for: |build| build.os != "windows",
        build: homebrew::build,
        check: check::homebrew::check,
    },
    Format {
        name: "server-json",
        is_for: |_| true,
        build: server_json::build,
        check: check::server_json::check,
    },
];

fn is_linux(build: &Build) -> bool {
    build.os == "linux"
}

/// Makes the packages and prints their files, or checks them.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let names = FORMATS.map(|format| format.name);
    if let Some(unknown) = options
        .formats
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        bail!("there is no format `{unknown}`: {}", names.join(", "));
    }
    let programs = chosen(&options.words)?;
    let build = Build::new(layout, options, &programs)?;
    let products = programs
        .iter()
        .map(|program| Product::read(&build, program))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let dist = layout.target.join("dist");
    create_dir(&dist)?;
    let is_wanted = |format: &&Format| {
        let is_named = options.formats.iter().any(|name| name == format.name);
        is_named || (options.formats.is_empty() && (format.is_for)(&build))
    };
    let mut failed = Vec::new();
    for format in FORMATS.iter().filter(is_wanted) {
        let files = (format.build)(&products, &build, &dist).context(format.name)?;
        for file in &files {
            let size = fs::metadata(file)?.len();
            print_as!(format.name, "{} ({size} bytes)", layout.shown(file));
        }
        if options.has("check") {
            let context = check::Context {
                layout,
                products: &products,
                build: &build,
                files: &files,
            };
            match (format.check)(&context) {
                Ok(()) => print_as!(format.name, "ok    installed and called"),
                Err(error) => {
                    print_as!(format.name, "FAIL  {error:#}");
                    failed.push(format.name);
                }
            }
        }
    }
    if options.has("check")
        && let Err(error) = again(FORMATS.iter().filter(is_wanted), &products, &build, &dist)
    {
        print_as!(WHO, "FAIL  {error:#}");
        failed.push("made again");
    }
    sums(&dist)?;
    if !failed.is_empty() {
        print_as!(WHO, "FAIL  {}", failed.join(", "));
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns the named programs, by default all.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let unknown = names.iter().find(|name| !PROGRAMS.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        bail!("there is no program `{unknown}`: {}", PROGRAMS.join(", "));
    }
    let is_chosen = |program: &&str| names.is_empty() || names.iter().any(|name| name == program);
    Ok(PROGRAMS.into_iter().filter(is_chosen).collect())
}

/// Makes all packages a second time, in another folder, and compares them: the same commit gives the same bytes.
fn again<'a>(
    formats: impl Iterator<Item = &'a Format>,
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<()> {
    let dir = build.layout.target.join("package/again");
    let _ = fs::remove_dir_all(&dir);
    create_dir(&dir)?;
    let mut compared = 0;
    for format in formats {
        let files = (format.build)(products, build, &dir).context(format.name)?;
        // Others are not in the folder of the release.
        for file in files.iter().filter(|file| file.starts_with(&dir)) {
            let first = dist.join(file.file_name().unwrap_or_default());
            let is_same = fs::read(&first)? == fs::read(file)?;
            ensure!(
                is_same,
                "{} has other bytes when it is made again",
                build.layout.shown(&first)
            );
            compared += 1;
        }
    }
    print_as!(
        WHO,
        "ok    {compared} packages, made again, have the same bytes"
    );
    Ok(fs::remove_dir_all(&dir)?)
}

/// Writes the sums of all files of the folder as `sha256sum` does, which also checks them.
fn sums(dist: &Path) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dist)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if entry.is_file() && name != SUMS {
            lines.push((archive::sha256(&fs::read(&entry)?), name.into_owned()));
        }
    }
    lines.sort_by(|a, b| a.1.cmp(&b.1));
    let lines: String = lines
        .iter()
        .map(|(sum, name)| format!("{sum}  {name}\n"))
        .collect();
    Ok(fs::write(dist.join(SUMS), lines)?)
}
