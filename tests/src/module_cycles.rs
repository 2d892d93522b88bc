//! Modules form no circle, in any crate.
//!
//! A module knows another one if it names, in a `use` or elsewhere, something that the other one
//! defines; a `pub use` between them is followed to the definition. A module and its own child may
//! know each other. Test code is not looked at.

mod tree;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use self::tree::{Edges, Read, Tree};
use crate::committed::root;

/// The edges of a circle that are shown for each step.
const MAX_PLACES: usize = 4;

/// The shortest circle of modules, each known to the one before it.
fn shortest_circle(tree: &Tree<'_>, edges: &Edges) -> Option<Vec<usize>> {
    let mut known: HashMap<usize, Vec<usize>> = HashMap::new();
    for (from, to) in edges.keys() {
        known.entry(*from).or_default().push(*to);
    }
    let circles = (0..tree.modules.len()).filter_map(|start| {
        let mut ways = VecDeque::from([vec![start]]);
        let mut seen = HashSet::new();
        while let Some(way) = ways.pop_front() {
            for next in known.get(way.last()?).into_iter().flatten() {
                if *next == start {
                    return Some(way);
                }
                if seen.insert(*next) {
                    ways.push_back([&*way, &[*next]].concat());
                }
            }
        }
        None
    });
    circles.min_by_key(Vec::len)
}

/// The shortest circle with the places that make it, for people to read.
fn circle(root: &str, read: Read<'_>) -> Option<String> {
    let tree = Tree::new(root, read);
    let edges = tree.edges();
    let circle = shortest_circle(&tree, &edges)?;
    let mut text = String::new();
    for (at, from) in circle.iter().enumerate() {
        let to = &circle[(at + 1) % circle.len()];
        let (from, places) = (&tree.modules[*from], &edges[&(*from, *to)]);
        let to = &tree.modules[*to].name;
        let _ = writeln!(text, "{} -> {to}", from.name);
        for place in places.iter().take(MAX_PLACES) {
            let _ = writeln!(text, "    {}:{place}", from.file);
        }
    }
    Some(text)
}

/// The circle in a crate of the workspace, given by its folder or by the file of its root.
fn circle_in(place: &str) -> Option<String> {
    let files = [
        place.to_owned(),
        format!("{place}/src/lib.rs"),
        format!("{place}/src/main.rs"),
    ];
    let mut files = files.into_iter();
    let file = files.find(|file| root().join(file).is_file()).unwrap();
    circle(&file, &|file| {
        std::fs::read_to_string(root().join(file)).ok()
    })
}

#[test]
fn modules_form_no_circle() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| format!("crates/{}", entry.unwrap().file_name().display()));
    let others = ["xtask", "tests/src/main.rs", "tests/fixture/lib.rs"];
    let mut faults = String::new();
    for place in crates.chain(others.map(str::to_owned)) {
        if let Some(circle) = circle_in(&place) {
            let _ = writeln!(faults, "a circle in {place}:\n{circle}");
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// The circle in a crate of this text, as `a -> b, b -> a`.
fn circle_of(text: &str) -> Option<String> {
    let circle = circle("lib.rs", &|_| Some(text.to_owned()))?;
    let edges = circle.lines().filter(|line| !line.starts_with(' '));
    Some(edges.collect::<Vec<_>>().join(", "))
}

#[test]
fn circles_are_found() {
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
        assert_eq!(
            circle_of(&text).as_deref(),
            Some("a -> b, b -> a"),
            "{case}"
        );
    }
    let grandchild = "
        mod a {
            mod b { pub(crate) fn f() { crate::Root; } }
            pub(crate) use b::f;
        }
        struct Root;
        fn f() { a::f(); }";
    let found = circle_of(grandchild);
    assert_eq!(found.as_deref(), Some("crate -> a::b, a::b -> crate"));
}

#[test]
fn all_else_is_no_circle() {
    for (case, text) in [
        (
            "a module and its own child",
            "mod a { pub struct A(super::Root); } pub struct Root; use a::A;",
        ),
        (
            "what the root only hands on",
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
        assert_eq!(circle_of(text), None, "{case}");
    }
}
