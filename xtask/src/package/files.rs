//! Files that several formats hold.

use std::fs;

use anyhow::Context as _;

use super::archive::Entry;
use super::{Build, Product};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

fn of_workspace(build: &Build, path: &str) -> anyhow::Result<Entry> {
    let bytes = fs::read(build.layout.root.join(path)).with_context(|| path.to_owned())?;
    Ok(Entry::new(path, bytes))
}

pub(crate) fn readme(build: &Build) -> anyhow::Result<Entry> {
    of_workspace(build, "README.md")
}

pub(crate) fn licences(build: &Build) -> anyhow::Result<Vec<Entry>> {
    LICENCES
        .iter()
        .map(|path| of_workspace(build, path))
        .collect()
}

/// Returns the manual pages of the program and of its commands, such as `docker-mcp-server-check.1`.
pub(crate) fn manuals(product: &Product) -> anyhow::Result<Vec<Entry>> {
    let mut pages = vec![Entry::new(
        format!("{}.1", product.name),
        product.manual(None)?,
    )];
    for command in product.commands()? {
        let page = product.manual(Some(&command))?;
        pages.push(Entry::new(format!("{}-{command}.1", product.name), page));
    }
    Ok(pages)
}

/// Returns the shells with the names of the files in which they look for the completions of a program.
pub(crate) fn completions(program: &str) -> [(&'static str, String); 3] {
    [
        ("bash", program.to_owned()),
        ("zsh", format!("_{program}")),
        ("fish", format!("{program}.fish")),
    ]
}
