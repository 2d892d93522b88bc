//! Tests of the tables of roles.

use super::{error, toml};
use mcp_core::server::Principal;
use serde_json::value::RawValue;

use crate::config::roles;

const ROLES: &str = r#"
    [backends.docker]
    command = ["d"]
    [backends.n8n]
    command = ["n"]

    [roles.reader]
    allow = [
        "docker__*",
        "n8n__get_*",
    ]
    effects = ["reads"]
    [roles.oncall]
    inherits = ["reader"]
    allow = ["docker__restart_container"]
    deny = ["*__prune"]
    own = ["events:all", "gateway_restart"]

    [principals]
    alice = "oncall"
    bob = "none"
    default = "reader"
"#;

#[test]
fn roles_inherit_rules_with_their_effects_and_lines() {
    use mcp_core::server::{AccessItem, Principal};
    use mcp_core::tool::Effect;

    let roles = toml(ROLES).roles.unwrap();
    let decide = |principal: Option<&str>, name, effect| {
        let effect = Some(effect);
        let item = AccessItem::Tool { name, effect };
        let principal = principal.map(Principal::new);
        roles.role(principal.as_ref()).decide(item).to_string()
    };
    let read = |principal, name| decide(Some(principal), name, Effect::ReadOnly);
    assert_eq!(
        read("alice", "docker__list_containers"),
        "allowed by line 9: roles.reader.allow: \"docker__*\", if its effect is one of: reads"
    );
    assert_eq!(
        decide(
            Some("alice"),
            "docker__restart_container",
            Effect::Idempotent
        ),
        "allowed by line 15: roles.oncall.allow: \"docker__restart_container\""
    );
    assert_eq!(
        decide(Some("alice"), "docker__kill_container", Effect::Destructive),
        "denied: line 9: roles.reader.allow: \"docker__*\" does not allow the effect destructive"
    );
    assert_eq!(
        read("alice", "docker__prune"),
        "denied by line 16: roles.oncall.deny: \"*__prune\""
    );
    for principal in [None, Some("carol"), Some("default")] {
        let found = roles.role(principal.map(Principal::new).as_ref());
        assert_eq!(found.name, "reader", "{principal:?}");
    }
    assert_eq!(
        read("bob", "docker__list_containers"),
        "denied: no rule allows it"
    );
    assert_eq!(toml("").roles, None);
}

#[test]
fn first_line_that_matches_a_principal_counts_after_the_role_of_its_token() {
    let roles = toml(
        r#"
        [roles.a]
        [roles.b]
        [roles.c]
        [principals]
        "scope:tools" = "c"
        zoe = "b"
        "group:ops" = "a"
        "https://issuer.test alice" = "b"
        "sub:alice" = "a"
        default = "c"
    "#,
    )
    .roles
    .unwrap();
    for (name, claims, expected) in [
        ("zoe", &[][..], "b"),
        ("zoe", &["role:a"], "a"),
        // The role may have been removed from the file.
        ("zoe", &["role:gone"], "none"),
        ("x", &["group:ops", "scope:tools"], "c"),
        ("x", &["sub:zoe", "group:ops"], "a"),
        ("https://issuer.test alice", &["sub:alice"], "b"),
        ("https://other.test alice", &["sub:alice"], "a"),
        ("alice", &[], "c"),
        ("default", &[], "c"),
        ("sub:alice x", &["sub:default", "group:zoe"], "c"),
    ] {
        let principal = Principal {
            claims: claims.iter().map(|claim| (*claim).into()).collect(),
            ..Principal::new(name)
        };
        assert_eq!(
            roles.role(Some(&principal)).name,
            expected,
            "{name} {claims:?}"
        );
    }
}

/// Patterns for arguments limit the rules of their table, also where these are inherited; of the limits the own one
/// counts, else the strictest.
#[test]
fn arguments_limit_the_rules_of_their_table_and_the_own_limit_counts() {
    let roles = toml(
        r#"
        [backends.d]
        command = ["d"]
        [roles.a]
        allow = ["d__a"]
        arguments = { x = "1" }
        limit = "10/min"
        [roles.b]
        inherits = ["a"]
        limit = "5/min"
        [roles.c]
        inherits = ["a", "b"]
        allow = ["d__c", "d__*"]
        arguments = { x = ["1", "2*"], y = true }
        [roles.d]
        inherits = ["c"]
        limit = "100/s"
        [principals]
        c = "c"
        d = "d"
        "#,
    );
    let roles = roles.roles.unwrap();
    let shown = |name: &str| {
        let role = roles.role(Some(&Principal::new(name)));
        role.limit
            .iter()
            .map(ToString::to_string)
            .collect::<String>()
    };
    assert_eq!(shown("c"), "line 10: roles.b.limit: 5/min");
    assert_eq!(shown("d"), "line 17: roles.d.limit: 100/s");
    let own = "denied by line 14: roles.c.arguments: ";
    for (tool, arguments, denial) in [
        ("d__a", r#"{"x":"1"}"#, String::new()),
        ("d__a", r#"{"x":"2","y":true}"#, String::new()),
        ("d__c", r#"{"x":"2","y":true}"#, String::new()),
        (
            "d__c",
            r#"{"x":"2"}"#,
            format!("{own}the call has no \"y\""),
        ),
        (
            "d__b",
            r#"{"x":"3","y":true}"#,
            format!("{own}\"x\" does not match"),
        ),
    ] {
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        for name in ["c", "d"] {
            let role = roles.role(Some(&Principal::new(name)));
            let judged = role.judge(tool, None, &arguments);
            assert_eq!(judged.err().unwrap_or_default(), denial, "{name} {tool}");
        }
    }
}

#[test]
fn faults_of_roles_name_their_line_and_the_nearest_name() {
    let backends = "[backends.docker]\ncommand = [\"d\"]\n";
    for (text, expected) in [
        (
            "[roles.a]\nalow = []",
            "gateway.toml:4: roles.a.alow: unknown field",
        ),
        (
            "[roles.a]\neffects = []\nallow = [\"docker__*\"]",
            "gateway.toml:4: roles.a.effects: must name at least one",
        ),
        (
            "[roles.a]\neffects = [\"read\"]",
            "unknown variant `read`, expected one of `reads`",
        ),
        ("[roles.a]\nown = [\"events\"]", "unknown variant `events`"),
        (
            "[roles.a]\ninherits = [\"b\"]\n[roles.b]\ninherits = [\"a\"]",
            "inherits from itself",
        ),
        (
            "[roles.reader]\n[roles.a]\ninherits = [\"raeder\"]",
            "did you mean \"reader\"?",
        ),
        (
            "[roles.reader]\n[principals]\nx = \"writer\"",
            "gateway.toml:5: principals.x: there is no role \"writer\"; there are: reader, none",
        ),
        (
            "[roles.a]\n\narguments = { x = 5 }",
            "gateway.toml:5: roles.a.arguments: \"x\" must be a pattern, a list of patterns",
        ),
        (
            "[roles.a]\narguments = { x = [] }",
            "\"x\" must be a pattern, a list of patterns",
        ),
        (
            "[roles.a]\narguments = { x = \"a\" }",
            "roles.a.arguments: needs `allow`, whose rules it limits",
        ),
        (
            "[roles.a]\nwhen = 'true'",
            "gateway.toml:4: roles.a.when: unknown field",
        ),
        (
            "[roles.a]\nlimit = \"30/week\"",
            "gateway.toml:4: roles.a.limit: must be a number of calls in a time",
        ),
        (
            "[roles.a]\nlimit = \"0/min\"",
            "must allow at least one call",
        ),
        (
            "[backends.docker.tools.prune]",
            "gateway.toml:3: backends.docker.tools.prune: needs `title`, `description` or `effect`",
        ),
        (
            "[backends.docker.tools.prune]\neffect = \"writes\"",
            "unknown variant `writes`",
        ),
        ("[principals]\nx = \"none\"", "needs a role"),
        (
            "[roles.reader]\n[principals]\n\"role:x\" = \"reader\"",
            "gateway.toml:5: principals.role:x: a role is given to a token in the token file",
        ),
        ("[roles.none]", "is a reserved name"),
        (
            "[roles.a]\nallow = [\"docker__x\"]\ndeny = [\"docker__x\"]",
            "\"docker__x\" is in `deny` too",
        ),
    ] {
        let found = error(&format!("{backends}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
    let fault = |text: &str| {
        let config = toml(&format!("{backends}{text}"));
        let (line, problem) = roles::check_backends(&config).err().unwrap();
        format!("{line}: {}", problem.text)
    };
    for (text, expected) in [
        (
            "[roles.a]\nallow = [\n\"docker__*\",\n\"dokcer__*\"]",
            "6: \"dokcer__*\" matches nothing: names begin with that of a backend and `__`; did you mean \"docker\"?",
        ),
        (
            "[roles.a]\ndeny = [\"prune\"]",
            "4: \"prune\" matches nothing",
        ),
        (
            "[approvals]\napprove = [\"dokcer__prune\"]",
            "4: \"dokcer__prune\" matches nothing",
        ),
        (
            "[roles.a]\nconfirm = [\"dokcer__prune\"]",
            "4: \"dokcer__prune\" matches nothing",
        ),
        (
            "[roles.a]\nallow = [\"gateway_status\"]",
            "4: names a tool of the gateway, which `own` allows",
        ),
        (
            "[approvals]\napprove = [\"get_events\"]",
            "4: names a tool of the gateway; of these a person can be asked about gateway_restart only",
        ),
        (
            "[roles.a]\nconfirm = [\"call_*\"]",
            "4: names a tool of the gateway; of these",
        ),
    ] {
        let found = fault(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let fine = "[approvals]\nconfirm = [\"gateway_restart\"]\napprove = [\"*\", \"gateway_*\"]\n[roles.a]\nallow = [\"*\", \"doc*\", \"*__list_*\", \"docker__*\", \"docker://logs/*\", \"d?cker__x\"]";
    let config = toml(&format!("{backends}{fine}"));
    assert!(roles::check_backends(&config).is_ok());
}

#[test]
fn operator_decides_about_the_calls_of_confirm() {
    let backends = "[backends]\ndocker.url = \"http://127.0.0.1:1/mcp\"\n";
    let lists = |text: &str| {
        let config = toml(&format!("{backends}{text}"));
        let roles = config.roles.as_ref();
        let role = roles.and_then(|roles| roles.roles.iter().find(|role| role.name == "a"));
        let of_all = [&config.approvals.confirm, &config.approvals.approve];
        let lists = role.map_or(of_all, |role| [&role.confirm, &role.approve]);
        lists.map(|rules| {
            let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
            rules.join(", ")
        })
    };
    for (text, confirm, approve) in [
        (
            "[approvals]\nconfirm = [\"docker__*\"]\napprove = \"operator\"",
            "",
            "line 4: approvals.confirm: \"docker__*\"",
        ),
        (
            "[approvals]\nconfirm = [\"docker__x\"]\napprove = [\"docker__y\"]",
            "line 4: approvals.confirm: \"docker__x\"",
            "line 5: approvals.approve: \"docker__y\"",
        ),
        (
            "[roles.a]\nconfirm = [\"docker__x\"]\napprove = \"operator\"",
            "",
            "line 4: roles.a.confirm: \"docker__x\"",
        ),
        // It is about the table where it stands.
        (
            "[roles.a]\ninherits = [\"b\"]\nconfirm = [\"docker__x\"]\n[roles.b]\nconfirm = [\"docker__y\"]\napprove = \"operator\"",
            "line 5: roles.a.confirm: \"docker__x\"",
            "line 7: roles.b.confirm: \"docker__y\"",
        ),
    ] {
        assert_eq!(lists(text), [confirm, approve], "{text}");
    }
    for (text, expected) in [
        (
            "[approvals]\napprove = \"operator\"",
            "approvals.approve: \"operator\" needs `confirm`",
        ),
        (
            "[roles.a]\napprove = \"operator\"",
            "roles.a.approve: \"operator\" needs `confirm`",
        ),
        (
            "[roles.a]\nconfirm = [\"docker__x\"]\napprove = \"operater\"",
            "expected a list of patterns, or \"operator\"",
        ),
        (
            "[roles.a]\nconfirm = [\"docker__x\"]\napprove = true",
            "expected a list of patterns, or \"operator\"",
        ),
    ] {
        let found = error(&format!("{backends}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
}
