//! Any file in any style comes back byte for byte.

use proptest::prelude::*;
use serde_json::Value;

use super::{Temporary, connected, disconnect, entry, own};
use crate::{Format, HOSTS, Host, edit};

/// The style of a file.
#[derive(Clone, Debug)]
struct Style {
    indent: Option<&'static str>,
    end: &'static str,
    mark: &'static str,
    comments: bool,
    last_line: bool,
}

fn style() -> impl Strategy<Value = Style> {
    let indents = prop::sample::select(vec![None, Some("  "), Some("    "), Some("\t"), Some("")]);
    let ends = prop::sample::select(vec!["\n", "\r\n"]);
    let marks = prop::sample::select(vec!["", "\u{feff}"]);
    let all = (indents, ends, marks, any::<bool>(), any::<bool>());
    all.prop_map(|(indent, end, mark, comments, last_line)| Style {
        indent,
        end,
        mark,
        comments: comments && indent.is_some(),
        last_line,
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\/{}\\[\\],:äß ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z ä\"]{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn written(value: &Value, style: &Style) -> String {
    let mut text = match style.indent {
        None => value.to_string(),
        Some(indent) => {
            let mut bytes = Vec::new();
            let format = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            let mut writer = serde_json::Serializer::with_formatter(&mut bytes, format);
            serde::Serialize::serialize(value, &mut writer).unwrap();
            String::from_utf8(bytes).unwrap()
        }
    };
    if style.comments {
        text = format!("// {{ mine\n{}", text.replace('\n', " // \"note\n"));
    }
    if style.last_line {
        text.push('\n');
    }
    format!("{}{}", style.mark, text.replace('\n', style.end))
}

/// Returns the file after an entry was written and taken back.
fn taken_back(host: &Host, text: &str) -> String {
    let folder = Temporary::new();
    let path = folder.0.join("file");
    std::fs::write(&path, text).unwrap();
    connected(host, &path);
    let plan = disconnect(host, &path, "docker", &own()).unwrap();
    plan.apply().unwrap();
    std::fs::read_to_string(&path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_file_comes_back(
        rest in prop::collection::btree_map("[a-z]{1,6}", json_value(), 0..4),
        servers in prop::option::of(prop::collection::btree_map("[a-z]{1,4}", json_value(), 0..4)),
        at_the_end: bool,
        style in style(),
        host in 0..HOSTS.len(),
    ) {
        let host = &HOSTS[host];
        prop_assume!(!matches!(host.format, Format::Toml | Format::Node));
        let style = Style { comments: style.comments && host.format != Format::Json, ..style };
        let mut file: serde_json::Map<_, _> = rest.into_iter().collect();
        if let Some(servers) = servers {
            let servers = Value::Object(servers.into_iter().collect());
            match at_the_end {
                true => _ = file.insert(host.key.to_owned(), servers),
                false => _ = file.shift_insert(0, host.key.to_owned(), servers),
            }
        }
        let text = written(&file.into(), &style);
        let new = edit::set(host, &text, "docker", Some(&entry(host))).unwrap();
        let again = edit::set(host, &new, "docker", Some(&entry(host))).unwrap();
        prop_assert!(edit::is_change_of(host, &text, &again, "docker", Some(&entry(host))).unwrap());
        prop_assert_eq!(taken_back(host, &text), &*text, "{}", new);
        // Without a copy the content comes back, if not every blank.
        let removed = edit::set(host, &new, "docker", None).unwrap();
        prop_assert!(edit::is_change_of(host, &text, &removed, "docker", None).unwrap());
    }

    #[test]
    fn any_toml_file_comes_back(
        keys in prop::collection::btree_set("[a-z]{1,5}", 0..5),
        tables in prop::collection::btree_set("[a-z]{6,8}", 0..4),
        servers in prop::collection::btree_set("[a-z]{1,4}", 0..3),
        comments: bool,
        style in style(),
    ) {
        let host = HOSTS.iter().find(|host| host.format == Format::Toml).unwrap();
        let note = if comments { " # note" } else { "" };
        let mut text = String::new();
        for key in &keys {
            text.push_str(&format!("{key}   = [ 1,\n  2 ]{note}\n"));
        }
        for (at, table) in tables.iter().enumerate() {
            text.push_str(&format!("\n[{table}]{note}\nx.y = '''\na\n'''\n"));
            for server in servers.iter().filter(|_| at == 0) {
                text.push_str(&format!("[mcp_servers.{server}]{note}\ncommand='a'\n[mcp_servers.{server}.env]\nA = \"1\"\n"));
            }
        }
        if comments {
            text.push_str("# the end");
        }
        let text = format!("{}{}", style.mark, text.replace('\n', style.end));
        let new = edit::set(host, &text, "docker", Some(&entry(host))).unwrap();
        prop_assert_eq!(taken_back(host, &text), &*text, "{}", new);
        let removed = edit::set(host, &new, "docker", None).unwrap();
        prop_assert!(edit::is_change_of(host, &text, &removed, "docker", None).unwrap());
    }
}
