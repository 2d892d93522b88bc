//! Tests of the decisions of roles.

use proptest::prelude::*;

use super::*;

fn rule(list: &'static str, pattern: &str) -> Rule {
    Rule::new(pattern.to_owned(), "r".into(), list, 1)
}

fn role(allow: &[&str], deny: &[&str]) -> Role {
    Role {
        allow: allow.iter().map(|pattern| rule("allow", pattern)).collect(),
        deny: deny.iter().map(|pattern| rule("deny", pattern)).collect(),
        ..Role::named("r")
    }
}

fn tool(name: &str, effect: Effect) -> AccessItem<'_> {
    AccessItem::Tool {
        name,
        effect: Some(effect),
    }
}

#[test]
fn deny_goes_before_allow_and_effects_limit_their_own_rules() {
    let mut role = role(
        &["docker__*", "n8n__run_workflow"],
        &["*__prune", "docker__get_secret?"],
    );
    role.allow[0].effects = Some(vec![EffectName::Reads, EffectName::Additive]);
    for (name, effect, allowed) in [
        ("docker__list_containers", Effect::ReadOnly, true),
        ("docker__create_container", Effect::Additive, true),
        ("docker__restart_container", Effect::Idempotent, false),
        ("docker__remove_container", Effect::Destructive, false),
        ("docker__rename", Effect::PartlyDestructive, false),
        ("docker__prune", Effect::ReadOnly, false),
        ("docker__get_secrets", Effect::ReadOnly, false),
        ("docker__get_secret", Effect::ReadOnly, true),
        ("n8n__run_workflow", Effect::Destructive, true),
        ("n8n__run_workflows", Effect::ReadOnly, false),
        ("Docker__list_containers", Effect::ReadOnly, false),
    ] {
        let decision = role.decide(tool(name, effect), None);
        assert_eq!(decision.is_allowed(), allowed, "{name}: {decision}");
    }
    let denied = role.decide(tool("docker__rename", Effect::Destructive), None);
    assert_eq!(
        denied.to_string(),
        "denied: line 1: r.allow: \"docker__*\" does not allow the effect destructive"
    );
    let missing = |name| AccessItem::Tool { name, effect: None };
    for (name, allowed) in [
        ("docker__any", true),
        ("docker:any", true),
        ("docker.any", true),
        ("docker:prune", false),
        ("files__any", false),
    ] {
        let decision = role.decide(missing(name), None);
        assert_eq!(decision.is_allowed(), allowed, "{name}");
    }
}

#[test]
fn uri_is_decided_in_every_spelling_and_as_a_browser_reads_it() {
    let docker = role(&["docker://logs/*"], &["docker://logs/secret*"]);
    let web = role(&["https://h.test/pub/*"], &["https://h.test/pub/private*"]);
    for (role, uri, allowed) in [
        (&docker, "docker://logs/web", true),
        (&docker, "docker://logs/w%65b", true),
        (&docker, "docker://logs/secret-1", false),
        (&docker, "docker://logs/%73ecret-1", false),
        (&docker, "docker://logs/%2573ecret-1", false),
        (&docker, "docker://logs/%252573ecret-1", false),
        (&docker, "docker://container%73/web", false),
        (&docker, "docker://l%6fgs/web", false),
        (&docker, "docker://logs/%ff", true),
        (&docker, "docker://logs/x/../secret-1", false),
        (&docker, "docker://logs/../containers/web", false),
        (&docker, "docker://logs/%2e%2e/containers/web", false),
        (&docker, "docker://logs/%252e%252e/containers/web", false),
        (&docker, "docker://logs/sec\tret-1", false),
        (&docker, " docker://logs/secret-1", false),
        (&docker, "DOCKER://logs/secret-1", false),
        (&docker, "docker://logs/{id}", true),
        (&docker, "docker://logs/{+path}?x={y}", true),
        (&docker, "docker://logs/a b", true),
        (&web, "https://h.test/pub/a", true),
        (&web, "https://h.test/pub/../etc", false),
        (&web, "https://h.test/pub\\..\\etc", false),
        (&web, "https://h.test/pub/x/%2e%2e/private", false),
        (&web, "https://h.test:443/pub/private", false),
        (&web, "https://H.test/pub/private", false),
        (&web, "https://h.test/pub/./private", false),
        (&web, "https://h.test/pub/..;/etc", false),
    ] {
        let decision = role.decide(AccessItem::Resource(uri), None);
        assert_eq!(decision.is_allowed(), allowed, "{uri}: {decision}");
    }
}

#[test]
fn own_tools_need_their_right() {
    let mut role = role(&["*"], &[]);
    let may = |role: &Role, name| {
        let decision = role.decide(tool(name, Effect::ReadOnly), None);
        decision.is_allowed()
    };
    for (name, allowed) in [
        ("gateway_restart", false),
        ("gateway_status", false),
        ("get_events", true),
        ("search_tools", true),
        ("call_tool", true),
    ] {
        assert_eq!(may(&role, name), allowed, "{name}");
        assert!(!may(&Role::named("r"), name), "{name}");
    }
    role.rights = vec![Right::Restart, Right::Status];
    assert!(OWN_TOOLS.iter().all(|name| may(&role, name)));
}

proptest! {
    /// Adding a deny rule allows nothing more, and adding an allow rule denies
    /// nothing more.
    #[test]
    fn rules_only_work_in_their_direction(
        allow in proptest::collection::vec("[ab*?]{1,4}", 0..4),
        deny in proptest::collection::vec("[ab*?]{1,4}", 0..4),
        more in "[ab*?]{1,4}",
        name in "[ab]{1,4}",
    ) {
        let decide = |allow: &[String], deny: &[String]| {
            let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
            let deny: Vec<&str> = deny.iter().map(String::as_str).collect();
            role(&allow, &deny).decide(tool(&name, Effect::ReadOnly), None).is_allowed()
        };
        let before = decide(&allow, &deny);
        let with = |list: &[String]| [list, std::slice::from_ref(&more)].concat();
        prop_assert!(before || !decide(&allow, &with(&deny)));
        prop_assert!(!before || decide(&with(&allow), &deny));
    }
}
