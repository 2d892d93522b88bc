//! Tests of the tables of roles.

use super::{assert_said, error, toml};
use mcp_core::server::Principal;

use crate::config::roles;

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

const BACKENDS: &str = "[backends.docker]\ncommand = [\"d\"]\n";

/// Faults of the tables, each with a part of its error.
const FAULTS: &str = r#"
[roles.a]\nalow = []
=> gateway.toml:4: roles.a.alow: unknown field
[roles.a]\neffects = []\nallow = ["docker__*"]
=> gateway.toml:4: roles.a.effects: must name at least one
[roles.a]\neffects = ["read"]
=> unknown variant `read`; did you mean `reads`?
[roles.a]\nown = ["events"]
=> unknown variant `events`
[roles.a]\ninherits = ["b"]\n[roles.b]\ninherits = ["a"]
=> inherits from itself
[roles.reader]\n[roles.a]\ninherits = ["raeder"]
=> did you mean "reader"?
[roles.reader]\n[principals]\nx = "writer"
=> gateway.toml:5: principals.x: there is no role "writer"; there are: reader, none
[roles.a]\n\narguments = { x = 5 }
=> gateway.toml:5: roles.a.arguments: "x" must be a pattern, a list of patterns
[roles.a]\narguments = { x = [] }
=> "x" must be a pattern, a list of patterns
[roles.a]\narguments = { x = "a" }
=> roles.a.arguments: needs `allow`, whose rules it limits
[roles.a]\nwhen = 'true'
=> gateway.toml:4: roles.a.when: unknown field
[roles.a]\nlimit = "30/week"
=> gateway.toml:4: roles.a.limit: must be a number of calls in a time
[roles.a]\nlimit = "0/min"
=> must allow at least one call
[backends.docker.tools.prune]
=> gateway.toml:3: backends.docker.tools.prune: needs `title`, `description` or `effect`
[backends.docker.tools.prune]\neffect = "writes"
=> unknown variant `writes`
[principals]\nx = "none"
=> needs a role
[roles.reader]\n[principals]\n"role:x" = "reader"
=> gateway.toml:5: principals.role:x: a role is given to a token in the token file
[roles.none]
=> is a reserved name
[approvals]\napprove = "operator"
=> gateway.toml:4: approvals.approve: expected a list
[roles.a]\nallow = ["docker__x"]\ndeny = ["docker__x"]
=> "docker__x" is in `deny` too
"#;

/// Rules that match nothing, each with the line and the text of its error.
const UNMATCHED: &str = r#"
[roles.a]\nallow = [\n"docker__*",\n"dokcer__*"]
=> 6: "dokcer__*" matches nothing: names begin with that of a backend and `__`; did you mean "docker"?
[roles.a]\nallow = ["*"]\ndeny = ["prune"]
=> 5: "prune" matches nothing
[approvals]\napprove = ["dokcer__prune"]
=> 4: "dokcer__prune" matches nothing
[roles.a]\nconfirm = ["dokcer__prune"]
=> 4: "dokcer__prune" matches nothing
[roles.a]\nallow = ["gateway_status"]
=> 4: names a tool of the gateway, which `own` allows
[approvals]\napprove = ["get_events"]
=> 4: names a tool of the gateway; of these a person can be asked about gateway_restart only
[roles.a]\nconfirm = ["call_*"]
=> 4: names a tool of the gateway; of these
"#;

#[test]
fn faults_of_roles_name_their_line_and_the_nearest_name() {
    assert_said(FAULTS, |text| error(&format!("{BACKENDS}{text}")));
    let fault = |text: &str| {
        let config = toml(&format!("{BACKENDS}{text}"));
        let problem = roles::validate(&config).err().unwrap();
        format!("{}: {}", problem.line.unwrap(), problem.problem)
    };
    assert_said(UNMATCHED, fault);
    let fine = "[approvals]\nconfirm = [\"gateway_restart\"]\napprove = [\"*\", \"gateway_*\"]\n[roles.a]\nallow = [\"*\", \"doc*\", \"*__list_*\", \"docker__*\", \"docker://logs/*\", \"d?cker__x\"]";
    let config = toml(&format!("{BACKENDS}{fine}"));
    assert!(roles::validate(&config).is_ok());
}
