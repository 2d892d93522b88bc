//! Tests of what events say about items that a view does not have.

use super::*;
use crate::server::access::DeniedBy;
use crate::server::{Access, Identity, ServerItems, ViewItems, ViewTools};
use crate::tool::{ArgumentError, ToolFuture};

/// Denies what has `secret` in its name.
struct Rules;

impl Access for Rules {
    fn groups(&self) -> usize {
        1
    }

    fn group(&self, _: Option<&Principal>, view: Option<&str>) -> Option<usize> {
        (view != Some("gone")).then_some(0)
    }

    fn allows(&self, _: usize, item: AccessItem<'_>) -> bool {
        !format!("{item:?}").contains("secret")
    }

    fn fingerprint(&self, _: Option<&str>) -> u64 {
        0
    }

    fn explain(&self, _: usize, _: AccessItem<'_>) -> String {
        "denied by a rule".to_owned()
    }
}

struct Unused;

impl BoundTool for Unused {
    fn start<'a>(&'a self, _: &RawValue, _: &'a Call) -> Result<ToolFuture<'a>, ArgumentError> {
        unreachable!("no test calls it")
    }
}

fn tool(name: &str) -> (ToolDefinition, Arc<dyn BoundTool>) {
    let json = r#"{"name":"x","inputSchema":{"type":"object"}}"#.to_owned();
    let json = RawValue::from_string(json).unwrap();
    let tool = ToolDefinition::from_backend(name.to_owned(), name.to_owned(), &json);
    (tool.unwrap(), Arc::new(Unused))
}

/// A catalog whose view `v` has the tools of `b`, and calls `b__one` `first`.
fn catalog() -> Arc<Catalog> {
    let (one, bound) = tool("b__one");
    let first = one.in_view("first", |_| None).unwrap();
    let includes = |tool: &ToolDefinition| match tool.name.starts_with("b__") {
        true if !tool.name.contains("secret") => Inclusion::Listed,
        _ => Inclusion::Out,
    };
    let view = ViewItems {
        name: "v".into(),
        title: None,
        tools: Arc::new(ViewTools::new(includes, vec![(first, bound)])),
        resources: Vec::new(),
        prompts: Vec::new(),
    };
    let items = ServerItems {
        tools: ["b__one", "b__secret", "c__one"].map(tool).into(),
        access: Some(Arc::new(Rules)),
        views: vec![view],
        ..ServerItems::default()
    };
    let identity = Identity {
        name: String::new(),
        version: String::new(),
        description: String::new(),
    };
    Arc::new(Catalog::new(items, &identity))
}

#[test]
fn denial_says_whether_a_rule_or_the_view_has_decided() {
    let denial = |view, name| {
        let view = CatalogView::new(catalog(), None, view);
        let denial = view.denial(McpMethod::CallTool, name);
        denial.map(|denial| (denial.by, denial.reason))
    };
    for (name, expected) in [
        ("first", None),
        (
            "b__one",
            Some((DeniedBy::View, "view v: denied: it is first there")),
        ),
        ("b__secret", Some((DeniedBy::Role, "denied by a rule"))),
        (
            "c__one",
            Some((DeniedBy::View, "view v: denied: of none of its backends")),
        ),
        ("b__none", None),
    ] {
        let expected = expected.map(|(by, reason)| (by, reason.to_owned()));
        assert_eq!(denial(Some("v"), name), expected, "{name}");
    }
    assert_eq!(denial(None, "b__one"), None);
    assert_eq!(
        denial(Some("gone"), "b__one")
            .map(|(_, reason)| reason)
            .as_deref(),
        Some("denied: there is no such view for this caller")
    );
}

#[test]
fn events_have_the_published_name() {
    let view = CatalogView::new(catalog(), None, Some("v"));
    for (name, expected) in [
        ("first", "b__one"),
        ("b__one", "b__one"),
        ("other", "other"),
    ] {
        assert_eq!(view.published(McpMethod::CallTool, name), expected);
    }
    assert_eq!(view.published(McpMethod::GetPrompt, "first"), "first");
}
