//! Modules form no cycle, in any crate.
//!
//! A module depends on another one if it names, in a `use` or elsewhere, an item that the other one
//! defines; re-exports are followed to the definition. A module and its own child may depend on each
//! other. Test code is skipped.

mod tree;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use self::tree::{Edges, Read, Tree};
use crate::committed::root;

/// Limit of the shown places for each edge of a cycle.
const MAX_PLACES: usize = 4;

/// The shortest cycle of modules, each of which depends on the next.
fn shortest_cycle(tree: &Tree<'_>, edges: &Edges) -> Option<Vec<usize>> {
    let mut known: HashMap<usize, Vec<usize>> = HashMap::new();
    for (from, to) in edges.keys() {
        known.entry(*from).or_default().push(*to);
    }
    let cycles = (0..tree.modules.len()).filter_map(|start| {
        let mut paths = VecDeque::from([vec![start]]);
        let mut seen = HashSet::new();
        while let Some(path) = paths.pop_front() {
            for next in known.get(path.last()?).into_iter().flatten() {
                if *next == start {
                    return Some(path);
                }
                if seen.insert(*next) {
                    paths.push_back([&*path, &[*next]].concat());
                }
            }
        }
        None
    });
    cycles.min_by_key(Vec::len)
}

/// The shortest cycle with the places that cause it, as text.
fn cycle(root: &str, read: Read<'_>) -> Option<String> {
    let tree = Tree::new(root, read);
    let edges = tree.edges();
    let cycle = shortest_cycle(&tree, &edges)?;
    let mut text = String::new();
    for (at, from) in cycle.iter().enumerate() {
        let to = &cycle[(at + 1) % cycle.len()];
        let (from, places) = (&tree.modules[*from], &edges[&(*from, *to)]);
        let to = &tree.modules[*to].name;
        let _ = writeln!(text, "{} -> {to}", from.name);
        for place in places.iter().take(MAX_PLACES) {
            let _ = writeln!(text, "    {}:{place}", from.file);
        }
    }
    Some(text)
}

/// The cycle in a crate of the workspace, given by its folder or its root file.
fn cycle_in(place: &str) -> Option<String> {
    let files = [
        place.to_owned(),
        format!("{place}/src/lib.rs"),
        format!("{place}/src/main.rs"),
    ];
    let mut files = files.into_iter();
    let file = files.find(|file| root().join(file).is_file()).unwrap();
    cycle(&file, &|file| {
        std::fs::read_to_string(root().join(file)).ok()
    })
}

#[test]
fn modules_form_no_cycle() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| format!("crates/{}", entry.unwrap().file_name().display()));
    let others = ["xtask", "tests/src/main.rs", "tests/fixture/lib.rs"];
    let mut faults = String::new();
    for place in crates.chain(others.map(str::to_owned)) {
        if let Some(cycle) = cycle_in(&place) {
            let _ = writeln!(faults, "a cycle in {place}:\n{cycle}");
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// The cycle in a crate with this text, as `a -> b, b -> a`.
fn cycle_of(text: &str) -> Option<String> {
    let cycle = cycle("lib.rs", &|_| Some(text.to_owned()))?;
    let edges = cycle.lines().filter(|line| !line.starts_with(' '));
    Some(edges.collect::<Vec<_>>().join(", "))
}

#[test]
fn cycles_are_found() {
    let b = "mod b { pub struct B; fn back() { crate::a::f(); } }";
    for (case, a) in [
        ("by a use", "use crate::b::B; pub fn f() {}"),
        ("by a path in code", "pub fn f() { let _ = super::b::B; }"),
        (
            "in a macro",
            "pub fn f() { vec![(1, super::b::B::new())]; }",
        ),
        (
            "in a function's use",
            "pub fn f() { use crate::{b::{self, B as C}}; }",
        ),
        (
            "by an imported module",
            "use crate::b; pub fn f(_: b::B) {}",
        ),
        ("through a pub use", "use crate::B; pub fn f() {}"),
        ("through a glob", "use crate::b::*; pub fn f(_: B::X) {}"),
        (
            "after test code",
            "#[test] fn t() {} pub fn f(_: super::b::B) {}",
        ),
    ] {
        let text = format!("pub use b::B; mod a {{ {a} }} {b}");
        assert_eq!(cycle_of(&text).as_deref(), Some("a -> b, b -> a"), "{case}");
    }
    let grandchild = "
        mod a {
            mod b { pub(crate) fn f() { crate::Root; } }
            pub(crate) use b::f;
        }
        struct Root;
        fn f() { a::f(); }";
    let found = cycle_of(grandchild);
    assert_eq!(found.as_deref(), Some("crate -> a::b, a::b -> crate"));
}

#[test]
fn other_dependencies_are_no_cycle() {
    for (case, text) in [
        (
            "a module and its own child",
            "mod a { pub struct A(super::Root); } pub struct Root; use a::A;",
        ),
        (
            "a re-export by the root",
            "pub use b::B; fn f() { a::c::f(); }
             mod a { pub mod c { pub fn f() { crate::B; } } }
             mod b { pub struct B; }",
        ),
        (
            "test code",
            "mod a { pub fn f() {} #[cfg(test)] use super::b::B; #[tokio::test] fn t() { super::b::B; }
                     #[cfg(test)] mod tests { use crate::b::B; } }
             mod b { pub struct B; fn back() { crate::a::f(); } }",
        ),
        (
            "a module that is imported and not used",
            "mod a { use crate::b; pub fn f() {} } mod b { fn back() { crate::a::f(); } }",
        ),
        (
            "another crate",
            "mod a { use ::b::B; use other::b; pub fn f() { b::B; } }
             mod b { pub struct B; fn back() { crate::a::f(); } }",
        ),
    ] {
        assert_eq!(cycle_of(text), None, "{case}");
    }
}
