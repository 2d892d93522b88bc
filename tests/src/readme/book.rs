//! The book of `docs`: its list of pages is whole, and its links lead to pages of the book.

use std::path::{Path, PathBuf};

use super::page;
use crate::committed::root;

/// The address of a file of this repository.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// The paths of its pages, in order.
pub(super) fn pages() -> Vec<String> {
    let summary = page("docs/SUMMARY.md");
    let links = links(&summary);
    links.iter().map(|link| format!("docs/{link}")).collect()
}

fn links(page: &str) -> Vec<String> {
    let links = page.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split(')').next());
    links.map(str::to_owned).collect()
}

/// All files in a folder and its folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

#[test]
fn book_has_every_page() {
    let mut listed = pages();
    listed.sort();
    let found = files(&root().join("docs")).into_iter();
    let found = found.map(|file| file.strip_prefix(root()).unwrap().display().to_string());
    let is_page = |path: &String| path.ends_with(".md") && path != "docs/SUMMARY.md";
    let mut found: Vec<_> = found.filter(is_page).collect();
    found.sort();
    assert_eq!(listed, found, "docs/SUMMARY.md and the pages of docs");
}

/// Other links are those of the built book, too. `every_link_leads_somewhere` has the headings.
#[test]
fn links_of_the_book_stay_in_it() {
    for path in pages() {
        let depth = path.matches('/').count() - 1;
        for link in links(&page(&path)) {
            let file = link.split('#').next().unwrap();
            let found = match file.strip_prefix(REPOSITORY) {
                Some(file) => root().join(file).is_file(),
                None if file.starts_with("https://") || file.is_empty() => true,
                None => {
                    let is_inside = file.matches("../").count() <= depth;
                    is_inside && root().join(&path).with_file_name(file).is_file()
                }
            };
            assert!(
                found,
                "{path}: {link} is no file of the book: write {REPOSITORY}…"
            );
        }
    }
}

#[test]
fn pages_open_with_a_heading_and_plain_words() {
    for path in pages() {
        let page = page(&path);
        assert!(page.starts_with("# "), "{path} has no title");
        let mut paragraphs = page.split("\n\n").skip(1);
        let opening = paragraphs.next().unwrap_or_default();
        let first = opening
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let is_relative = [
            "what", "whatever", "who", "whoever", "which", "those", "nobody", "how", "where",
        ];
        assert!(
            !is_relative.contains(&&*first),
            "{path} opens with `{first}`"
        );
    }
}
