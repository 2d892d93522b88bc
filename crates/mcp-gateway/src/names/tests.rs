//! Tests of published names.

use std::collections::HashSet;

use gateway_access::OWN_TOOLS;
use proptest::prelude::*;

use super::*;

fn key(text: &str) -> BackendKey {
    BackendKey::parse(text).unwrap()
}

fn items<'a>(
    backend: &'a BackendKey,
    bare: bool,
    claim: Claim,
    names: &[&'a str],
) -> BackendItems<'a> {
    BackendItems {
        backend,
        bare,
        is_alone: false,
        names: names.iter().map(|name| (claim, *name)).collect(),
    }
}

fn names(backend: &BackendKey, names: &[&str]) -> PublishedNames {
    PublishedNames::publish([items(backend, false, Claim::Full, names)])
}

fn refused(names: &PublishedNames) -> Vec<(&str, &str)> {
    let refused = names.refused.iter();
    refused
        .map(|refused| (&*refused.item, &*refused.reason))
        .collect()
}

#[test]
fn tool_has_three_names() {
    let docker = key("docker");
    let names = names(&docker, &["list_containers", "a.b"]);
    let published = &names.published[1];
    assert_eq!(&*published.name, "docker__list_containers");
    assert_eq!(&*published.plain, "docker:list_containers");
    let aliases = ["docker:list_containers", "docker.list_containers"];
    assert_eq!(published.aliases(), aliases);
    let aliases = names.published[0].aliases();
    assert_eq!(aliases, ["docker:a.b", "docker.a.b"]);
}

#[test]
fn name_that_clients_reject_gets_a_readable_one() {
    let (files, long) = (key("files"), "x".repeat(58));
    let tools = ["read/file", "read.file", "größe", &long];
    let names = names(&files, &tools);
    let published: Vec<&str> = names.published.iter().map(|one| &*one.name).collect();
    assert_eq!(
        published,
        [
            "files__gr__e_d353a267",
            "files__read_file_9cc468c6",
            "files__read_file_dd32cdf5",
            "files__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_5ef8b2e5",
        ]
    );
    assert_eq!(published[3].len(), MAX_NAME_LEN);
    assert_eq!(&*names.published[3].item, long);
    assert_eq!(names.published[0].aliases()[0], "files:größe");
    assert_eq!(&*names.published[0].plain, "files:gr__e_d353a267");
}

#[test]
fn longest_name_that_fits_is_unchanged() {
    let (files, fits) = (key("files"), "x".repeat(57));
    let names = names(&files, &[&fits]);
    let expected = format!("files__{fits}");
    assert_eq!(&*names.published[0].name, expected);
    assert_eq!(expected.len(), MAX_NAME_LEN);
}

#[test]
fn long_or_invisible_name_is_not_shown_as_it_is() {
    let (files, longest) = (key("files"), "x.".repeat(MAX_NAME_LEN));
    let too_long = format!("{longest}x");
    for (item, is_shown) in [
        ("read/file", true),
        (&longest, true),
        (&too_long, false),
        ("read file", false),
        ("read\u{200b}", false),
    ] {
        let names = names(&files, &[item]);
        let published = &names.published[0];
        let plain = published.plain.strip_prefix("files:").unwrap();
        assert_eq!(plain == item, is_shown, "{item}");
        let portable = published.name.strip_prefix("files__").unwrap();
        assert!(is_shown || plain == portable, "{plain}");
    }
}

#[test]
fn generated_name_never_replaces_a_real_one() {
    let files = key("files");
    let made = "read_file_9cc468c6";
    for tools in [["read/file", made, made], [made, "read/file", made]] {
        let names = names(&files, &tools);
        assert_eq!(names.published.len(), 1);
        assert_eq!(&*names.published[0].item, made);
        let reasons = [
            (made, "is listed twice"),
            ("read/file", "has the same name as \"read_file_9cc468c6\""),
        ];
        assert_eq!(refused(&names), reasons);
    }
    let names = names(&files, &[""]);
    assert_eq!(refused(&names), [("", "has no name")]);
}

#[test]
fn denied_item_is_not_named_as_refused() {
    let docker = key("docker");
    let denied = ["stop", "stop", "list", ""];
    let names = PublishedNames::publish([
        items(&docker, false, Claim::Denied, &denied),
        items(&docker, false, Claim::Full, &["list"]),
    ]);
    let published: Vec<&str> = names.published.iter().map(|one| &*one.name).collect();
    assert_eq!(published, ["docker__list", "docker__stop"]);
    assert!(names.refused.is_empty());
}

fn tool() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c_.:/-]{0,4}",
        "[ab]{60,70}",
        "[a-zA-Z0-9_.-]{1,80}",
        "\\PC{0,12}",
        Just("status".to_owned()),
        Just("_gateway_status".to_owned()),
    ]
}

fn backends() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    let one = ("[ab][a-b0-1-]{0,2}", prop::collection::vec(tool(), 0..6));
    prop::collection::vec(one, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10_000) })]

    #[test]
    fn names_are_portable_and_unique(backends in backends()) {
        let keys: Vec<_> = backends.iter().map(|(name, _)| key(name)).collect();
        let items = |at: usize| {
            let names: Vec<&str> = backends[at].1.iter().map(String::as_str).collect();
            items(&keys[at], false, Claim::Full, &names)
        };
        let names = PublishedNames::publish((0..keys.len()).map(items));
        let mut seen = HashSet::new();
        for published in &names.published {
            let name = &*published.name;
            prop_assert!((1..=MAX_NAME_LEN).contains(&name.len()), "{name}");
            prop_assert!(name.chars().all(is_portable), "{name}");
            prop_assert!(!OWN_TOOLS.contains(&name));
            let [colon, dot] = published.aliases();
            let forms = [name.to_owned(), published.plain.to_string(), colon, dot];
            for form in HashSet::from(forms) {
                prop_assert!(seen.insert(form.clone()), "two items are called {form}");
            }
        }
        // Every item is published or refused, and a different order changes nothing.
        let listed: usize = backends.iter().map(|(_, tools)| tools.len()).sum();
        prop_assert_eq!(names.published.len() + names.refused.len(), listed);
        let again = PublishedNames::publish((0..keys.len()).rev().map(items));
        prop_assert_eq!(&names.published, &again.published);
        prop_assert_eq!(&names.refused, &again.refused);
    }
}

#[test]
fn bare_names_are_unchanged_and_hide_nothing() {
    let (one, two) = (key("one"), key("two"));
    let items = |backend, names: &[&'static str]| items(backend, true, Claim::Full, names);
    let names = PublishedNames::publish([
        items(&one, &["echo", "gateway_status", "dotted.name"]),
        items(&two, &["echo", "two"]),
    ]);
    let published: Vec<&str> = names.published.iter().map(|item| &*item.name).collect();
    assert!(published[0].starts_with("dotted_name_"));
    assert_eq!(published[1..], ["echo", "two"]);
    assert_eq!(names.published[1].backend, one);
    let expected = [
        ("gateway_status", "has the name of a tool of the gateway"),
        ("echo", "has the same name as \"echo\""),
    ];
    assert_eq!(refused(&names), expected);
}

#[test]
fn bare_tool_that_cannot_be_called_hides_none_that_can() {
    let (one, two) = (key("one"), key("two"));
    for (claim, holder) in [
        (Claim::Full, &one),
        (Claim::Unapproved, &two),
        (Claim::Denied, &two),
    ] {
        let items = |backend, claim| items(backend, true, claim, &["pay"]);
        let names = PublishedNames::publish([items(&one, claim), items(&two, Claim::Full)]);
        let [published] = &names.published[..] else {
            panic!("{:?}", names.published)
        };
        assert_eq!(&published.backend, holder);
    }
}
