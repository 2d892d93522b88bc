//! `cargo xtask release --dry-run`: shows what a release of this commit would publish, and what keeps it
//! from being one. The workflow `.github/workflows/release.yml` makes the release.

mod changelog;
mod missing;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::args::Options;
use crate::cargo::exit_code;
use crate::console::table;
use crate::layout::{Layout, on_path};
use changelog::{Section, UNRELEASED};

/// The folder of `cargo xtask package`, below the target directory.
const DIST: &str = "dist";

/// The sums of all other files there.
const SUMS: &str = "SHA256SUMS";

/// The place of a file, by the end of its name; all others are files of the release only.
const REGISTRIES: [(&str, &str); 6] = [
    (".whl", "PyPI"),
    (".tgz", "npm"),
    (".tar", "registry of images"),
    ("server.json", "MCP registry"),
    (".rb", "Homebrew tap"),
    (".crate", "crates.io"),
];

/// A crate of the workspace.
struct Crate {
    name: String,
    version: String,
    is_published: bool,
}

/// A file of [`DIST`].
struct File {
    name: String,
    size: u64,
    sum: String,
}

/// Shows everything with `--dry-run`, and only the notes with `--notes`. A word is the tag that the release
/// was asked for with.
///
/// # Errors
/// When the commit cannot be released is no error but an exit code, after everything is shown.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let text = fs::read_to_string(layout.root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    let sections = changelog::sections(&text);
    let newest = sections.iter().find(|section| section.name != UNRELEASED);
    if options.has("notes") {
        let newest = newest.context("CHANGELOG.md has no released version")?;
        print_line!("{}", newest.notes);
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        options.has("dry-run"),
        "a release is made by the workflow release.yml when a tag is pushed; --dry-run shows what it would publish"
    );
    let crates = crates(layout)?;
    let version = version(&crates)?;
    let mut faults = changelog::faults(&sections, version);
    faults.extend(tag_faults(
        layout,
        version,
        options.words.first().map(String::as_str),
    )?);
    let dist = layout.target.join(DIST);
    let files = files(&dist, &mut faults).unwrap_or_else(|error| {
        faults.push(format!("{error:#}"));
        Vec::new()
    });
    let names: Vec<_> = files.iter().map(|file| &*file.name).collect();
    faults.extend(missing::faults(&names));
    show(layout, version, newest, &crates, &files);
    faults
        .iter()
        .for_each(|fault| print_line!("error: {fault}"));
    if faults.is_empty() {
        print_line!("Everything agrees. Nothing was published.");
    }
    Ok(exit_code(faults.is_empty()))
}

fn show(
    layout: &Layout,
    version: &str,
    newest: Option<&Section>,
    crates: &[Crate],
    files: &[File],
) {
    let log = newest.map_or("none", |section| &section.name);
    print_line!("version  {version} in Cargo.toml, {log} in CHANGELOG.md");
    print_line!("tag      v{version}");
    let dist = layout.target.join(DIST);
    print_line!("files    {} in {}\n", files.len(), layout.shown(&dist));
    if !files.is_empty() {
        let mut rows = vec![["file", "bytes", "SHA-256", "also to"].map(str::to_owned)];
        rows.extend(files.iter().map(|file| {
            let registry = registry(&file.name).unwrap_or_default().to_owned();
            [
                file.name.clone(),
                file.size.to_string(),
                file.sum.clone(),
                registry,
            ]
        }));
        print_line!("{}", table(&rows));
    }
    let published = crates.iter().filter(|one| one.is_published);
    let published: Vec<_> = published.map(|one| &*one.name).collect();
    print_line!("crates.io: {}\n", published.join(", "));
    if let Some(newest) = newest {
        print_line!("notes of the release:\n\n{}\n", newest.notes);
    }
}

/// Returns the registry that gets this file beside the release on GitHub.
fn registry(name: &str) -> Option<&'static str> {
    let found = REGISTRIES.iter().find(|(end, _)| name.ends_with(end));
    found.map(|(_, registry)| *registry)
}

fn crates(layout: &Layout) -> anyhow::Result<Vec<Crate>> {
    let words = "metadata --no-deps --format-version 1 --offline";
    let output = Command::new("cargo")
        .args(words.split(' '))
        .current_dir(&layout.root)
        .output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        message.trim_end()
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let crates = packages.iter().map(|package| Crate {
        name: text(&package["name"]),
        version: text(&package["version"]),
        is_published: package["publish"] != serde_json::json!([]),
    });
    Ok(crates.collect())
}

/// Returns the version of all crates.
fn version(crates: &[Crate]) -> anyhow::Result<&str> {
    let first = crates.first().context("the workspace has no crates")?;
    if let Some(other) = crates.iter().find(|other| other.version != first.version) {
        bail!(
            "{} is {}, but {} is {}: all crates have `version.workspace = true`",
            first.name,
            first.version,
            other.name,
            other.version
        );
    }
    Ok(&first.version)
}

/// Returns what is wrong with the tag of this version and with the commit.
fn tag_faults(layout: &Layout, version: &str, asked: Option<&str>) -> anyhow::Result<Vec<String>> {
    let tag = format!("v{version}");
    let mut faults = Vec::new();
    if let Some(asked) = asked.filter(|asked| *asked != tag) {
        faults.push(format!(
            "the tag is {asked}, but the version in Cargo.toml makes it {tag}"
        ));
    }
    let reference = format!("refs/tags/{tag}^{{commit}}");
    let tagged = git(layout, &["rev-parse", "--quiet", "--verify", &reference])?;
    let head = git(layout, &["rev-parse", "HEAD"])?.context("there is no commit")?;
    if let Some(tagged) = tagged.filter(|tagged| *tagged != head) {
        faults.push(format!(
            "{tag} exists already, at {tagged}: raise the version"
        ));
    }
    let changed = git(layout, &["status", "--porcelain"])?.unwrap_or_default();
    if !changed.is_empty() {
        let files = changed.lines().count();
        faults.push(format!("{files} files are not committed"));
    }
    Ok(faults)
}

/// Returns the output of git, or `None` if it fails.
fn git(layout: &Layout, args: &[&str]) -> anyhow::Result<Option<String>> {
    let mut git = Command::new("git");
    let output = git.args(args).current_dir(&layout.root).output();
    let output = output.context("git")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}

/// Returns the files of a folder. Adds a fault for each that is not in [`SUMS`], or not as there.
///
/// # Errors
/// When the folder or [`SUMS`] is missing.
fn files(dist: &Path, faults: &mut Vec<String>) -> anyhow::Result<Vec<File>> {
    let sums = fs::read_to_string(dist.join(SUMS))
        .with_context(|| format!("no {SUMS}: run `cargo xtask package` before"))?;
    let sums: Vec<_> = sums
        .lines()
        .filter_map(|line| line.split_once([' ', '\t']))
        .map(|(sum, name)| (sum, name.trim_start_matches([' ', '*'])))
        .collect();
    let mut files = Vec::new();
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_file() || name == SUMS {
            continue;
        }
        let found = sums.iter().find(|(_, listed)| *listed == name);
        if found.is_none() {
            faults.push(format!("{name} is not in {SUMS}"));
        }
        files.push(File {
            size: entry.metadata()?.len(),
            sum: found.map_or("none", |(sum, _)| sum).to_owned(),
            name,
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    faults.extend(wrong_sums(dist)?);
    Ok(files)
}

/// Returns a fault for each file that differs from its sum or is missing.
fn wrong_sums(dist: &Path) -> anyhow::Result<Vec<String>> {
    // Of GNU and Busybox, or of macOS.
    let (program, args) = match on_path("sha256sum") {
        Some(program) => (program, &["-c"][..]),
        None => {
            let program = on_path("shasum").context("sha256sum is not installed")?;
            (program, &["-a", "256", "-c"][..])
        }
    };
    let mut check = Command::new(program);
    let check = check.args(args).arg(SUMS).env("LC_ALL", "C");
    let output = check.current_dir(dist).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let wrong = text.lines().filter(|line| !line.ends_with(": OK"));
    Ok(wrong.map(|line| format!("{SUMS}: {line}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, version: &str) -> Crate {
        Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            is_published: true,
        }
    }

    #[test]
    fn crates_have_one_version() {
        assert_eq!(
            version(&[one("a", "0.1.0"), one("b", "0.1.0")]).unwrap(),
            "0.1.0"
        );
        let error = version(&[one("a", "0.1.0"), one("b", "0.2.0")]).err();
        assert!(error.unwrap().to_string().contains("b is 0.2.0"));
    }

    #[test]
    fn files_are_exactly_those_with_a_sum() {
        let dir = std::env::temp_dir().join(format!("release-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let all = || {
            let mut faults = Vec::new();
            let files = files(&dir, &mut faults);
            files.map(|files| (files, faults.join("\n")))
        };
        let missing = all().err().unwrap();
        assert!(
            format!("{missing:#}").contains("cargo xtask package"),
            "{missing:#}"
        );
        fs::write(dir.join("a.deb"), "abc").unwrap();
        fs::write(dir.join(SUMS), format!("{sum}  a.deb\n")).unwrap();
        let (good, faults) = all().unwrap();
        assert_eq!(
            (&*good[0].name, good[0].size, &*good[0].sum),
            ("a.deb", 3, sum)
        );
        assert_eq!(faults, "");

        fs::write(dir.join("a.deb"), "abd").unwrap();
        fs::write(dir.join("b.deb"), "").unwrap();
        let (shown, faults) = all().unwrap();
        assert_eq!(shown.len(), 2);
        assert!(faults.contains("a.deb: FAILED"), "{faults}");
        assert!(faults.contains("b.deb is not in"), "{faults}");
        for name in ["a.deb", "b.deb"] {
            fs::remove_file(dir.join(name)).unwrap();
        }
        let (_, lost) = all().unwrap();
        assert!(lost.contains("a.deb: FAILED"), "{lost}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn each_file_has_its_registry() {
        for (name, expected) in [
            ("mcp_gateway-0.1.0-py3-none-any.whl", Some("PyPI")),
            ("mcp-gateway-0.1.0.tgz", Some("npm")),
            ("mcp-gateway_0.1.0-1_amd64.deb", None),
            (
                "mcp-gateway-0.1.0-image-linux-amd64.tar",
                Some("registry of images"),
            ),
            ("mcp-gateway-0.1.0-x86_64-unknown-linux-gnu.tar.gz", None),
        ] {
            assert_eq!(registry(name), expected, "{name}");
        }
    }
}
