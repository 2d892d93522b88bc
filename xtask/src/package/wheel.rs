//! Wheels for pip, pipx and uv: the program is a script of the wheel, so that it is on the search path of the
//! environment.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::archive::{Entry, zip};
use super::{Build, Product, elf, files, registry};

/// `uvx NAME` starts the command NAME of the package NAME, and names of packages have a prefix that programs do
/// not have: this module is that command.
const LAUNCHER: &str = include_str!("wheel/launcher.py");

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let write = |product: &Product| {
        let script = format!(
            "{}/scripts/{}",
            data(product, build),
            build.file(product.name)
        );
        let program = Entry::program(script, &build.program(product.name))?;
        let tag = format!("py3-none-{}", platform(build, &program.bytes)?);
        let mut entries = texts(product, build, &tag)?;
        entries.push(program);
        let record = format!("{}/RECORD", info(product, build));
        entries.push(Entry::new(record.clone(), hashes(&entries, &record)));
        let file = dist.join(format!("{}-{}-{tag}.whl", module(product), build.version));
        fs::write(&file, zip(&entries, build.epoch)?)?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

/// Returns the name of the package as files and modules have it.
pub(crate) fn module(product: &Product) -> String {
    registry::pypi(product.name).replace('-', "_")
}

fn data(product: &Product, build: &Build) -> String {
    format!("{}-{}.data", module(product), build.version)
}

fn info(product: &Product, build: &Build) -> String {
    format!("{}-{}.dist-info", module(product), build.version)
}

/// Returns the tag of the platforms on which the program runs.
fn platform(build: &Build, program: &[u8]) -> anyhow::Result<String> {
    let arch = build.arch;
    Ok(match (build.os, arch) {
        ("linux", _) => linux(arch, elf::glibc(program)?),
        // The oldest systems for which Rust builds.
        ("macos", "aarch64") => "macosx_11_0_arm64".to_owned(),
        ("macos", _) => format!("macosx_10_12_{arch}"),
        ("windows", "aarch64") => "win_arm64".to_owned(),
        ("windows", _) => "win_amd64".to_owned(),
        (other, _) => bail!("there are no wheels for {other}"),
    })
}

/// Returns the tag for a version of the C library; a program without one runs with any, also musl.
fn linux(arch: &str, glibc: Option<(u32, u32)>) -> String {
    match glibc {
        Some((major, minor)) => format!("manylinux_{major}_{minor}_{arch}"),
        None => format!("manylinux_2_17_{arch}.musllinux_1_1_{arch}"),
    }
}

/// Returns all files but the program and the record.
fn texts(product: &Product, build: &Build, tag: &str) -> anyhow::Result<Vec<Entry>> {
    let (module, info) = (module(product), info(product, build));
    let licences = files::licences(build)?;
    let name = registry::pypi(product.name);
    let launcher = LAUNCHER.replace("@PROGRAM@", product.name);
    let commands = format!("[console_scripts]\n{name} = {module}:main\n");
    // Each platform of a compressed tag has its own line.
    let (python, platforms) = tag.rsplit_once('-').unwrap_or((tag, ""));
    let mut wheel = "Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\n".to_owned();
    for platform in platforms.split('.') {
        let _ = writeln!(wheel, "Tag: {python}-{platform}");
    }
    let mut entries = vec![
        Entry::new(format!("{module}/__init__.py"), launcher),
        Entry::new(
            format!("{info}/METADATA"),
            metadata(product, &build.version, &licences),
        ),
        Entry::new(format!("{info}/WHEEL"), wheel),
        Entry::new(format!("{info}/entry_points.txt"), commands),
    ];
    for mut licence in licences {
        licence.path = format!("{info}/licenses/{}", licence.path);
        entries.push(licence);
    }
    Ok(entries)
}

fn metadata(product: &Product, version: &str, licences: &[Entry]) -> String {
    let name = registry::pypi(product.name);
    let install = format!("```\nuvx {name} --stdio\n```");
    let files = licences
        .iter()
        .map(|file| format!("License-File: {}\n", file.path));
    format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: {}\nLicense-Expression: {}\n{}\
         Project-URL: Source, {}\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}",
        product.summary,
        registry::LICENSE,
        files.collect::<String>(),
        registry::REPOSITORY,
        registry::readme(product, &install),
    )
}

/// Returns the record: each file with its sum and size, sorted, and itself without.
fn hashes(entries: &[Entry], own: &str) -> String {
    let mut lines: Vec<_> = entries
        .iter()
        .map(|entry| {
            let sum = URL_SAFE_NO_PAD.encode(hmac_sha256::Hash::hash(&entry.bytes));
            format!("{},sha256={sum},{}\n", entry.path, entry.bytes.len())
        })
        .collect();
    lines.sort();
    lines.push(format!("{own},,\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::product::tests::example;

    #[test]
    fn tags_name_the_oldest_library_that_suffices() {
        assert_eq!(linux("x86_64", Some((2, 34))), "manylinux_2_34_x86_64");
        let any = "manylinux_2_17_aarch64.musllinux_1_1_aarch64";
        assert_eq!(linux("aarch64", None), any);
    }

    #[test]
    fn the_record_has_sums_in_the_alphabet_of_urls_and_none_of_itself() {
        let entries = [Entry::new("b", "abc"), Entry::new("a", "")];
        let record = hashes(&entries, "i/RECORD");
        let empty = "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0";
        let abc = "b,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3";
        assert_eq!(record, format!("{empty}\n{abc}\ni/RECORD,,\n"));
    }

    #[test]
    fn the_metadata_proves_the_name_in_the_registry_of_mcp() {
        let text = metadata(&example(), "1.2.3", &[]);
        let (headers, page) = text.split_once("\n\n").unwrap();
        assert!(
            headers.contains("\nName: mcp-servers-docker-mcp-server\n"),
            "{headers}"
        );
        let proof = format!("mcp-name: {}\n", registry::mcp("docker-mcp-server"));
        assert!(page.contains(&proof), "{page}");
    }
}
