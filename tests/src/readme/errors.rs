//! The page of errors has a section for each kind, and no other.

use std::collections::BTreeSet;

use super::page;

/// Sections that hold others.
const GROUPS: [&str; 3] = ["Requests", "Requests and tools", "Tools"];

/// Never sent: the call goes on with its next request.
const INTERNAL: &str = "interrupted";

/// The names that a function gives to the variants of an enum, beside longer texts.
fn names(file: &str, function: &str) -> BTreeSet<String> {
    let code = page(file);
    let (_, body) = code.split_once(function).expect(function);
    let (body, _) = body.split_once("\n    }\n").unwrap();
    let names = body.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let names = names.filter(|text| !text.is_empty()).filter(is_name);
    names.map(str::to_owned).collect()
}

#[test]
fn every_kind_has_a_section_that_says_what_to_do() {
    let mut kinds = names("crates/mcp-core/src/error.rs", "fn words(&self)");
    kinds.extend(names(
        "crates/mcp-core/src/tool/error.rs",
        "fn as_str(self)",
    ));
    // Of a result with `isError`, in events and metrics.
    kinds.insert("tool_error".to_owned());
    assert!(kinds.remove(INTERNAL) && kinds.len() > 25, "{kinds:?}");
    let page = page("docs/errors.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(headings.collect::<Vec<_>>(), GROUPS);
    let mut sections = BTreeSet::new();
    for section in page.split("\n### ").skip(1) {
        let section = section.split("\n## ").next().unwrap();
        let (kind, text) = section.split_once('\n').unwrap();
        assert!(
            text.contains("\n**To do:** "),
            "{kind} does not say what to do"
        );
        assert!(sections.insert(kind.to_owned()), "{kind} has two sections");
    }
    assert_eq!(sections, kinds, "sections and kinds");
}
