//! Tests of changed files that lack what the file before had.

use super::*;

const GOOD: &str = r#"
pins = "hold"
first_sight = "hold"

[approvals]
confirm = ["docker__stop"]
approve = [
    "docker__prune",
]

[backends.docker]
command = ["d"]
isolation = "session"
deny = ["*_secret"]
bare = true

[backends.docker.tools.wipe]
effect = "destructive"

[backends.n8n]
command = ["n"]
disabled = true

[roles.reader]
allow = ["*"]
effects = ["reads"]

[roles.support]
allow = ["*"]
inherits = ["reader"]
deny = ["docker__kill"]
arguments = { name = "a*" }
limit = "5/min"
views = ["support"]

[views.support]
backends = ["docker"]
deny = ["wipe"]

[principals]
default = "reader"
alice = "support"
"group:ops" = "none"
"#;

fn lost(before: &str, after: &str) -> String {
    match check(Some(before), Some(after)) {
        Ok(()) => String::new(),
        Err(problem) => format!("{}: {}", problem.field.join("."), problem.problem),
    }
}

/// Each line of the file is left out alone; the rest is read as another file.
#[test]
fn each_restriction_that_is_left_out_is_named() {
    assert_eq!(lost(GOOD, GOOD), "");
    for (line, field) in [
        ("pins = \"hold\"", "pins"),
        ("first_sight = \"hold\"", "first_sight"),
        ("confirm = [\"docker__stop\"]", "approvals.confirm"),
        ("isolation = \"session\"", "backends.docker.isolation"),
        ("deny = [\"*_secret\"]", "backends.docker.deny"),
        ("bare = true", "backends.docker.bare"),
        (
            "effect = \"destructive\"",
            "backends.docker.tools.wipe.effect",
        ),
        ("disabled = true", "backends.n8n.disabled"),
        ("effects = [\"reads\"]", "roles.reader.effects"),
        ("inherits = [\"reader\"]", "roles.support.inherits"),
        ("deny = [\"docker__kill\"]", "roles.support.deny"),
        ("arguments = { name = \"a*\" }", "roles.support.arguments"),
        ("limit = \"5/min\"", "roles.support.limit"),
        ("views = [\"support\"]", "roles.support.views"),
        ("backends = [\"docker\"]", "views.support.backends"),
        ("deny = [\"wipe\"]", "views.support.deny"),
        ("alice = \"support\"", "principals.alice"),
        ("\"group:ops\" = \"none\"", "principals.group:ops"),
    ] {
        assert_eq!(GOOD.matches(line).count(), 1, "{line}");
        let error = lost(GOOD, &GOOD.replace(line, ""));
        let start = format!("{field}: is in the file before and not in this one");
        assert!(error.starts_with(&start), "{line}: {error}");
    }
}

#[test]
fn tables_may_go_only_if_the_file_says_so() {
    let roles = "[backends.a]\n[roles.r]\n[principals]\nx = \"r\"\n";
    let json = check(Some(roles), None);
    for (after, expected) in [
        ("", "backends"),
        ("# nothing", "backends"),
        ("[backends.b]", "roles"),
        ("[backends]\n[roles.r]", "backends"),
        ("[backends.b]\n[roles]", "roles"),
        ("[backends.b]\n[roles.r]", "principals"),
        ("[backends.b]\n[roles.r]\n[principals]", "principals"),
        ("backends = {}\n[roles.r]\n[principals]\nx = \"r\"", ""),
        ("roles = {}\n[backends.b]", ""),
        ("roles = { }\nbackends = {}\n", ""),
        ("principals = {}\n[backends.b]\n[roles.s]", ""),
        (
            "[backends.b]\n[roles.s]\n[principals]\nx = \"s\"\ny = \"s\"",
            "",
        ),
    ] {
        let error = lost(roles, after);
        let field = error.split(':').next().unwrap_or_default();
        assert_eq!(field, expected, "{after:?}: {error}");
    }
    assert_eq!(json.unwrap_err().field, ["roles"]);
    assert!(check(None, Some("")).is_ok());
}

#[test]
fn empty_values_take_a_restriction_away() {
    let before = "pins = \"hold\"\n[approvals]\napprove = [\"a__b\"]\n[backends.a]\ndeny = [\"x\"]\ndisabled = true\n[roles.r]\n\
                  limit = \"1/s\"\neffects = [\"reads\"]\n[principals]\nx = \"r\"\n";
    let after = "pins = \"warn\"\napprovals = {}\n[backends.a]\ndeny = []\ndisabled = false\n[roles.s]\n[principals]\nx = \"s\"\n";
    assert_eq!(lost(before, after), "");
    // And then they need not be there any more.
    assert_eq!(
        lost(
            after,
            "[backends.a]\n[roles.s]\n[principals]\nx = \"s\"\nz = \"s\""
        ),
        ""
    );
    let error = lost(before, "[backends.a]\n[roles.r]\n[principals]\nx = \"r\"\n");
    assert_eq!(
        error,
        "pins: is in the file before and not in this one, as if it were cut off; likewise approvals.approve, \
         roles.r.effects, roles.r.limit, backends.a.deny, backends.a.disabled. If that is meant, write `pins = \
         \"off\"` or `pins = \"warn\"`"
    );
}

#[test]
fn principal_may_go_if_it_can_do_no_more_then() {
    let file = |lines: &str| format!("[roles.r]\n[roles.s]\n[principals]\n{lines}");
    for (before, after, is_lost) in [
        ("a = \"r\"\nb = \"r\"", "b = \"r\"", false),
        ("a = \"r\"\ndefault = \"r\"", "default = \"r\"", false),
        ("a = \"r\"\ndefault = \"s\"", "default = \"s\"", true),
        ("a = \"r\"\ndefault = \"none\"", "default = \"none\"", false),
        (
            "a = \"r\"\n\"group:x\" = \"s\"",
            "\"group:x\" = \"s\"",
            true,
        ),
        ("\"sub:a\" = \"r\"\nb = \"s\"", "b = \"s\"", true),
        ("a = \"r\"\ndefault = \"s\"", "a = \"r\"", false),
        (
            "a = \"r\"\ndefault = \"s\"",
            "a = \"none\"\ndefault = \"s\"",
            false,
        ),
    ] {
        let error = lost(&file(before), &file(after));
        assert_eq!(!error.is_empty(), is_lost, "{before} -> {after}: {error}");
    }
}

/// A file that is cut off after any byte, and is valid then, restricts as much as before or is refused.
#[test]
fn file_that_is_cut_off_at_any_byte_keeps_every_restriction() {
    let restrictions = |text: &str| {
        let table = DeTable::parse(text).unwrap();
        super::restrictions(table.get_ref())
    };
    let (mut taken, mut refused) = (0, 0);
    for end in 0..GOOD.len() {
        let cut = &GOOD[..end];
        if DeTable::parse(cut).is_err() {
            continue;
        }
        if !lost(GOOD, cut).is_empty() {
            refused += 1;
            continue;
        }
        taken += 1;
        assert_eq!(restrictions(cut), restrictions(GOOD), "{cut}");
        let lines = roles_of(DeTable::parse(cut).unwrap().get_ref());
        let all = roles_of(DeTable::parse(GOOD).unwrap().get_ref());
        assert_eq!(lines, all, "{cut}");
    }
    assert!(refused > 20 && taken > 0, "{refused} {taken}");
}
