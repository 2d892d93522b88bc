//! The book of `docs`: its list of pages is whole.

use std::path::{Path, PathBuf};

use super::page;
use crate::committed::root;

/// The paths of its pages, in order.
pub(super) fn pages() -> Vec<String> {
    let summary = page("docs/SUMMARY.md");
    let links = summary.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split(')').next());
    links.map(|link| format!("docs/{link}")).collect()
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
