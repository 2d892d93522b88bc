//! Tests of conditions.

use serde_json::value::RawValue;

use super::*;

fn condition(source: &str) -> Condition {
    let parsed = Condition::parse(source.to_owned(), "r".into(), 1);
    parsed.unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn judged(source: &str, arguments: &str) -> Result<bool, String> {
    let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
    let alice = Principal {
        claims: vec!["group:ops".into()],
        ..Principal::new("alice")
    };
    condition(source).holds(&JudgedCall {
        tool: "docker__restart_container",
        arguments: &Arguments::read(&arguments)?,
        principal: Some(&alice),
    })
}

const RULE: &str = r#"tool != "docker__restart_container" || args.container.startsWith("web-")"#;

#[test]
fn condition_sees_the_tool_its_arguments_and_the_caller() {
    for (source, arguments, expected) in [
        (RULE, r#"{"container":"web-1"}"#, true),
        (RULE, r#"{"container":"db"}"#, false),
        (r#"tool == "other" || true"#, "{}", true),
        (r#"!has(args.force) || !args.force"#, "{}", true),
        (
            r#"!has(args.force) || !args.force"#,
            r#"{"force":true}"#,
            false,
        ),
        (r#"args.?image.orValue("x").startsWith("x")"#, "{}", true),
        (
            r#"args.list.all(it, it in ["a", "b"])"#,
            r#"{"list":["a","b","a"]}"#,
            true,
        ),
        (
            r#"args.list.all(it, it in ["a", "b"])"#,
            r#"{"list":["a","c"]}"#,
            false,
        ),
        (r#"args.a.b[1] == 2"#, r#"{"a":{"b":[1,2.0]}}"#, true),
        (r#"args.n <= 10"#, r#"{"n":1e1}"#, true),
        (r#"args.n <= 10"#, r#"{"n":10.5}"#, false),
        (
            r#"args.name.matches("^web-[0-9]+$")"#,
            r#"{"name":"web-12"}"#,
            true,
        ),
        (r#"args.name == "ä""#, r#"{"name":"\u00e4"}"#, true),
        (
            r#"principal.name == "alice" && "group:ops" in principal.claims"#,
            "{}",
            true,
        ),
        (r#"size(args) == 0"#, "{}", true),
    ] {
        assert_eq!(
            judged(source, arguments),
            Ok(expected),
            "{source} {arguments}"
        );
    }
}

/// Arguments that two readers of JSON may understand differently are not judged, and the reason names no value.
#[test]
fn call_that_cannot_be_judged_is_denied_with_a_reason_and_no_value() {
    for (source, arguments, expected) in [
        (RULE, "{}", "the call has no \"container\""),
        (
            RULE,
            r#"{"container":"web-1","container":"db"}"#,
            "a name twice",
        ),
        (
            RULE,
            r#"{"container":"web-1","c\u006fntainer":"db"}"#,
            "a name twice",
        ),
        (
            RULE,
            r#"{"container":"web-1","CONTAINER":"db"}"#,
            "a name twice",
        ),
        (
            RULE,
            r#"{"x":{"a":1,"a":2},"container":"web-1"}"#,
            "a name twice",
        ),
        (
            "!has(args.task) || args.task == 1",
            r#"{"TASK":"secret"}"#,
            "spells \"task\" in another way",
        ),
        // The letters K (Kelvin) and ſ are k and s without their case.
        (
            "!has(args.task) || args.task == 1",
            r#"{"ta\u017f\u212a":"secret"}"#,
            "in another way",
        ),
        (
            RULE,
            r#"{"container":5}"#,
            "no matching overload for 'startsWith'",
        ),
        (RULE, r#"{"container":"\ud800"}"#, "cannot be read"),
        (
            "args.n == 9007199254740992",
            r#"{"n":9007199254740993}"#,
            "not exact",
        ),
        ("args.n != 1", r#"{"n":18446744073709551616}"#, "not exact"),
        ("args.n != 1", r#"{"n":1e400}"#, "cannot be read"),
        ("args.n", r#"{"n":"secret"}"#, "not true or false"),
        ("args.n % 2 == 0", r#"{"n":"secret"}"#, "of another type"),
        ("args.n / 0 == 0", r#"{"n":1}"#, "divides by zero"),
        ("args.list[7] == 1", r#"{"list":["secret"]}"#, "too short"),
        (
            "args[args.n] == 1",
            r#"{"n":"secret"}"#,
            "does not have what it reads",
        ),
    ] {
        let reason = judged(source, arguments).unwrap_err();
        assert!(reason.contains(expected), "{source} {arguments}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

/// Loops in loops over what a caller sends are bounded before they run.
#[test]
fn work_of_a_condition_is_bounded() {
    let list = format!(r#"{{"list":[{}]}}"#, vec!["1"; 3_000].join(","));
    assert_eq!(judged("args.list.all(a, a == 1)", &list), Ok(true));
    for source in [
        "args.list.all(a, args.list.all(b, args.list.all(c, a == b)))",
        "size(args.list.map(a, args.list).map(b, b.map(c, args.list))) > 0",
    ] {
        let started = std::time::Instant::now();
        let reason = judged(source, &list).unwrap_err();
        assert!(reason.contains("too large"), "{source}: {reason}");
        assert!(
            started.elapsed() < std::time::Duration::from_secs(5),
            "{source}"
        );
    }
}

#[test]
fn faults_of_conditions_are_found_when_they_are_read() {
    let deep = format!("{}true{}", "(".repeat(90), ")".repeat(90));
    let sum = format!("{}1 > 0", "1+".repeat(400));
    let long = format!("true{}", " || true".repeat(300));
    for (source, expected) in [
        ("", "must not be empty"),
        (
            r#"args.container.startsWith("web-"#,
            "is not an expression of CEL",
        ),
        ("args.a ==", "is not an expression of CEL"),
        (
            "arg.container == 1",
            r#"unknown variable "arg"; did you mean "args"?"#,
        ),
        (
            "args.x.startWith(\"a\")",
            r#"unknown function "startWith"; did you mean "startsWith"?"#,
        ),
        ("args.list.all(x, y == 1)", r#"unknown variable "y""#),
        ("Message{a: 1} == 1", "must not make messages"),
        (
            r#"args.x.matches("web-(")"#,
            r#"has an invalid pattern "web-(": unclosed group"#,
        ),
        ("args.x.matches(args.pattern)", "as a text in quotes"),
        (r#"matches(args.x, "a" + "b")"#, "as a text in quotes"),
        ("args.x.matches()", "as a text in quotes"),
        (r#"args.x.matches("(\\w{99}){99}")"#, "size limit"),
        (r#"args.x.matches("\\p{Grek1}")"#, "property not found"),
        (r#"args.x.matches("a{5000}")"#, "repetitions are too large"),
        (&deep, ""),
        (&sum, "nested deeper than 64"),
        (&long, "must not be longer than 2048"),
    ] {
        let parsed = Condition::parse(source.to_owned(), "r".into(), 1);
        match expected {
            // Deep parentheses are one level each, or too many; neither may end the process.
            "" => drop(parsed),
            _ => {
                let error = parsed.map(|_| ()).unwrap_err();
                assert!(error.contains(expected), "{source}: {error}");
            }
        }
    }
}

/// Matching a large text with a large pattern is counted before it is done.
#[test]
fn work_of_patterns_is_counted() {
    let text = format!(r#"{{"x":"{}"}}"#, "ab".repeat(100_000));
    let large = r#"args.x.matches("(a|b)*a(a|b){300}c")"#;
    assert_eq!(judged(large, r#"{"x":"abab"}"#), Ok(false));
    assert!(judged(large, &text).unwrap_err().contains("too large"));
    assert_eq!(judged(r#"matches(args.x, "^[ab]+$")"#, &text), Ok(true));
    let error = judged(large, r#"{"x":5}"#).unwrap_err();
    assert!(error.contains("of another type"), "{error}");
}

#[test]
fn patterns_know_the_classes_of_unicode() {
    for (pattern, text, expected) in [
        (r"^\\p{L}+$", "Größe", true),
        (r"^\\p{L}+$", "Größe1", false),
        (r"^\\p{Lu}\\p{Ll}*$", "Ärger", true),
        (r"^\\p{Greek}+$", "λόγος", true),
        (r"^\\p{Greek}+$", "logos", false),
        (r"^\\P{Nd}+$", "٣", false),
    ] {
        let source = format!(r#"args.x.matches("{pattern}")"#);
        let call = format!(r#"{{"x":"{text}"}}"#);
        assert_eq!(judged(&source, &call), Ok(expected), "{pattern} {text}");
    }
}

#[test]
fn only_what_is_read_from_the_arguments_is_a_name() {
    for (source, expected) in [
        (RULE, "container"),
        (
            r#"args.type == "Container" && principal.name in ["Image"]"#,
            "type",
        ),
        (r#"args["a"].b == "c" && args.?d == args[?"e"]"#, "a b d e"),
        (
            r#""a" in args && !("b" in args.c) && args.d in ["e"]"#,
            "a b c d",
        ),
        (r#"has(args.a.b) && tool == "x""#, "a b"),
        (
            r#"args.list.all(it, it.name != "x" && it["b"] != 1)"#,
            "b list name",
        ),
        (
            r#"args.env.exists(k, k == "PATH" || k in ["a"])"#,
            "PATH a env",
        ),
        (
            r#"principal.claims.exists(c, c == "x" && c != args.y)"#,
            "y",
        ),
        (r#"[args.a, args.b].all(it, it.c == 1)"#, "a b c"),
        (r#"(has(args.a) ? args.a : args.b).c == "d""#, "a b c"),
        (
            r#"args.a.filter(x, x.b).map(x, x.c)[0].d == "e""#,
            "a b c d",
        ),
        (r#"["a", "b"].all(k, args[k] == "c")"#, "a b c"),
        (r#"args.all(k, k.startsWith("a"))"#, "a"),
        (r#"args["con" + "tainer"] == 1"#, "con tainer"),
    ] {
        let condition = condition(source);
        let names: Vec<&str> = condition.names().iter().map(String::as_str).collect();
        assert_eq!(names.join(" "), expected, "{source}");
    }
    // A compared text is not the name of an argument.
    let call = r#"{"type":"Name","name":"x"}"#;
    assert_eq!(judged(r#"args.type == "Name""#, call), Ok(true));
}

#[test]
fn any_text_is_a_condition_or_a_fault() {
    use proptest::prelude::*;
    proptest!(ProptestConfig::with_cases(64), |(source in r#"[ a-z0-9().,"'\[\]{}?:!&|=<>+*/%\\-]{0,60}"#)| {
        let _ = Condition::parse(source, "r".into(), 1);
    });
}
