//! Tests of the tables of views.

use mcp_core::server::AccessItem;

use super::{assert_said, error, toml};
use crate::config::roles;

const BACKENDS: &str = "[backends.docker]\ncommand = [\"d\"]\n[backends.n8n]\ncommand = [\"n\"]\n";

/// A name without a key may be of a backend of the view that publishes its names as they are.
#[test]
fn names_of_bare_backends_are_in_the_view() {
    let backends = BACKENDS.replace("[backends.n8n]", "bare = true\n[backends.n8n]");
    let config = toml(&format!(
        "{backends}[views.a]\nbackends = [\"docker\"]\n[views.b]\nbackends = [\"n8n\"]\n"
    ));
    for (view, name, allowed) in [
        ("a", "list_containers", true),
        ("a", "n8n__list_workflows", false),
        ("b", "list_containers", false),
        ("b", "n8n__list_workflows", true),
    ] {
        let item = AccessItem::Tool { name, effect: None };
        let decision = config.view(view).unwrap().decide(item, None);
        assert_eq!(decision.is_allowed(), allowed, "{view} {name}: {decision}");
    }
}

#[test]
fn roles_say_which_views_they_may_use() {
    let config = toml(
        r#"
        [views.a]
        [views.b]
        [roles.all]
        [roles.one]
        views = ["a"]
        [roles.inherits]
        inherits = ["one"]
        [roles.other]
        inherits = ["one"]
        views = ["b*", "/mcp"]
        [roles.deep]
        inherits = ["other"]
        "#,
    );
    let roles = config.roles.unwrap();
    for (role, expected) in [
        ("all", [true, true, true]),
        ("one", [true, false, false]),
        ("inherits", [true, false, false]),
        ("other", [false, true, true]),
        ("deep", [false, true, true]),
    ] {
        let role = roles.roles.iter().find(|known| known.name == role).unwrap();
        let found = ["a", "b", "/mcp"].map(|view| role.may_use_view(view));
        assert_eq!(found, expected, "{}", role.name);
    }
}

/// Faults of the tables, each with a part of its error.
const FAULTS: &str = r#"
[views.a]\nbackend = []
=> gateway.toml:6: views.a.backend: unknown field
[views.A]
=> gateway.toml:5: views.A: the name of a view has at most 64
[views."a/b"]
=> views.a/b: the name of a view
[views.a]\nbackends = []
=> gateway.toml:6: views.a.backends: must name a backend
[views.a]\nallow = []
=> gateway.toml:6: views.a.allow: must have a pattern
[views.a]\nallow = [" "]
=> gateway.toml:6: views.a.allow: must not have an empty
[views.a]\nown = ["call_tool"]
=> unknown variant `call_tool`
[views.a]\ntitle = ""
=> gateway.toml:6: views.a.title: must have 1 to 100
[views.a]\nallow = ["docker__x"]\ndeny = ["docker__x"]
=> "docker__x" is in `deny` too
[views.a.tools.docker__x]
=> gateway.toml:5: views.a.tools.docker__x: missing field `name`
[views.a.tools.docker__x]\nname = "a.b"
=> gateway.toml:6: views.a.tools.docker__x.name: "a.b" does not match
[views.a.tools.docker__x]\nname = "get_events"
=> is the name of a tool of the gateway
[views.a.tools.get_events]\nname = "x"
=> is a tool of the gateway, which keeps its name
[views.a.tools]\ndocker__x.name = "y"\nn8n__x.name = "y"
=> gateway.toml:7: views.a.tools.n8n__x.name: "y" is the name of docker__x here, too
[views.a]\ndeny = ["*__x"]\n[views.a.tools.docker__x]\nname = "y"
=> gateway.toml:7: views.a.tools.docker__x: is not in the view: denied by line 6
"#;

/// Rules that match nothing, each with the line and the text of its error.
const UNMATCHED: &str = r#"
[views.a]\nbackends = ["dokcer"]
=> 0: views.a.backends: there is no backend dokcer; did you mean "docker"?
[views.a]\nbackends = ["n8n"]\nallow = ["docker__*"]
=> 7: views.a.allow: "docker__*" matches nothing: names begin with that of a backend of the view
[views.a]\ndeny = ["get_events"]
=> 6: views.a.deny: names a tool of the gateway, which `own` allows
[views.a.tools.nope__x]\nname = "y"
=> 0: views.a.tools.nope__x: "nope__x" matches nothing
[views.a.tools.docker__x]\nname = "n8n__y"
=> views.a.tools.docker__x.name: "n8n__y" may be the name of another tool of the backend n8n
[views.support]\n[roles.a]\nviews = ["suport"]
=> 7: roles.a.views: "suport" matches no view; did you mean "support"?
"#;

#[test]
fn faults_of_views_name_their_line_and_the_nearest_name() {
    assert_said(FAULTS, |text| error(&format!("{BACKENDS}{text}")));
    let fault = |text: &str| {
        let config = toml(&format!("{BACKENDS}{text}"));
        let problem = roles::validate(&config).err().unwrap();
        let line = problem.line.unwrap_or_default();
        format!("{line}: {}: {}", problem.field.join("."), problem.problem)
    };
    assert_said(UNMATCHED, fault);
}
