//! Tests of the decisions of views.

use mcp_core::server::Access;
use mcp_core::tool::Effect;

use super::*;
use crate::roles::Rule;
use crate::{Admission, Roles};

fn rules(name: &str, allow: &[&str], deny: &[&str]) -> Role {
    let rule = |list, pattern: &&str| Rule::new((*pattern).to_owned(), "t".into(), list, 1);
    Role {
        name: name.to_owned(),
        allow: allow.iter().map(|pattern| rule("allow", pattern)).collect(),
        deny: deny.iter().map(|pattern| rule("deny", pattern)).collect(),
        ..Role::default()
    }
}

fn view(name: &str, allow: &[&str], deny: &[&str]) -> Arc<View> {
    Arc::new(View {
        name: name.into(),
        backends: None,
        others: None,
        rules: rules(name, allow, deny),
        own: Vec::new(),
        tools: Vec::new(),
    })
}

/// Every pair of a role and a view decides about every tool, which a reload leaves to the first client of each pair.
/// With optimisation 2,000,000 decisions; prints how long they take (`cargo test --release -p gateway-access --lib
/// of_many_tools -- --nocapture`).
#[test]
#[expect(clippy::print_stdout, reason = "a figure")]
fn views_of_many_tools_are_compiled() {
    let tools = if cfg!(debug_assertions) { 500 } else { 10_000 };
    let names: Vec<String> = (0..tools)
        .map(|at| format!("backend{}__tool_with_a_long_name_{at}", at % 40))
        .collect();
    let of_backend = |at: usize| format!("backend{}__*", at % 40);
    let roles =
        (0..50).map(|at| rules(&format!("r{at}"), &[&of_backend(at), "*_77"], &["*__prune"]));
    let roles = Roles {
        roles: roles.collect(),
        principals: std::collections::BTreeMap::new(),
        default: 0,
    };
    let views = vec![
        view("a", &["*"], &[]),
        view("b", &["backend1*"], &["*_remove_*"]),
        view("c", &["*_name_1*"], &["backend2__*"]),
    ];
    let admission = Admission::new(Some(Arc::new(roles)), views, Arc::default());
    assert_eq!(admission.groups(), 200);
    let started = std::time::Instant::now();
    let counts: Vec<usize> = (0..admission.groups())
        .map(|group| {
            let is_allowed = |name: &&String| {
                let effect = Some(Effect::ReadOnly);
                admission.allows(group, AccessItem::Tool { name, effect })
            };
            names.iter().filter(is_allowed).count()
        })
        .collect();
    println!(
        "{tools} tools × 50 roles × 3 views and none: {:?}",
        started.elapsed()
    );
    // A view never has more than the role without it.
    for (group, count) in counts.iter().enumerate() {
        assert!(*count <= counts[group % 50], "{group}");
    }
    assert_eq!(counts[..50], counts[50..100]);
}
