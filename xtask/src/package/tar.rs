//! `NAME-VERSION-TARGET.tar.gz`, and `.zip` for Windows: the program with everything that belongs to it, to be
//! unpacked anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::{self, Entry};
use super::{Build, Product, files};

pub(super) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let built = products.iter().map(|product| {
        let folder = folder(product, build);
        let file = dist.join(format!("{folder}.{}", extension(build)));
        let mut entries = entries(product, build)?;
        for entry in &mut entries {
            entry.path = format!("{folder}/{}", entry.path);
        }
        let bytes = match build.os {
            "windows" => archive::zip(&entries, build.epoch)?,
            _ => archive::tar_gz(&entries, build.epoch)?,
        };
        fs::write(&file, bytes)?;
        Ok(file)
    });
    built.collect()
}

/// Returns the name of the only folder in the archive.
pub(super) fn folder(product: &Product, build: &Build) -> String {
    format!("{}-{}-{}", product.name, build.version, build.triple)
}

fn extension(build: &Build) -> &'static str {
    if build.os == "windows" {
        "zip"
    } else {
        "tar.gz"
    }
}

fn entries(product: &Product, build: &Build) -> anyhow::Result<Vec<Entry>> {
    let mut entries = vec![
        Entry::program(build.file(product.name), &build.program(product.name))?,
        files::readme(build)?,
    ];
    entries.extend(files::licences(build)?);
    for page in files::manuals(product)? {
        entries.push(Entry {
            path: format!("man/{}", page.path),
            ..page
        });
    }
    for (shell, name) in files::completions(product.name) {
        let path = format!("completions/{name}");
        entries.push(Entry::new(path, product.completions(shell)?));
    }
    Ok(entries)
}
