//! Generates the tables of the pages from what the servers print about themselves.

use std::fmt::Write as _;

use serde_json::Value;

use super::{page, port};
use crate::committed;
use crate::surface::{SERVERS, options, printed, tools};

#[test]
fn tables_are_fresh() {
    let mut tools = page("docs/tools.md");
    for server in SERVERS {
        tools = replaced(&tools, &format!("tools:{server}"), &tool_table(server));
    }
    committed::check("docs/tools.md", &tools);
    for (path, name, table) in [
        ("docs/configuration.md", "options", option_tables()),
        ("README.md", "toolsets", toolset_table()),
    ] {
        committed::check(path, &replaced(&page(path), name, &table));
    }
}

/// The first tables, which are written by hand, name every server; that of the book with its port.
#[test]
fn first_tables_have_every_server() {
    let (readme, book) = (page("README.md"), page("docs/README.md"));
    for server in SERVERS {
        let row = format!("| [`{server}`](");
        let is_row = |line: &&str| line.starts_with(&row);
        assert!(readme.lines().any(|line| is_row(&line)), "{server}");
        let port = format!("| {} |", port(server));
        let found = book.lines().find(is_row);
        assert!(found.is_some_and(|line| line.ends_with(&port)), "{server}");
        let drawn = format!(":{}", self::port(server));
        assert!(readme.contains(&drawn), "{server}: {drawn}");
    }
}

/// One row per server: its default tools and the names of its other toolsets.
fn toolset_table() -> String {
    let mut table = "| Server | Tools by default | More toolsets |\n|---|---|---|\n".to_owned();
    for server in SERVERS {
        let names = tool_names(&tools(server, "default"));
        let more = toolsets(server).map(|name| format!("`{name}`"));
        let more = more.collect::<Vec<_>>().join(", ");
        let _ = writeln!(table, "| `{server}` | {names} | {more} |");
    }
    table
}

fn tool_names(tools: &[Value]) -> String {
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Replaces the text between `<!-- name -->` and `<!-- end -->`.
pub(super) fn replaced(page: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = page
        .split_once(&begin)
        .unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once("<!-- end -->").expect("<!-- end -->");
    format!("{before}{begin}{table}<!-- end -->{after}")
}

fn tool_table(server: &str) -> String {
    let mut table = "| Tool | Arguments | What it does | Effect |\n|---|---|---|---|\n".to_owned();
    for tool in &tools(server, "default") {
        let name = tool["name"].as_str().unwrap();
        let description = cell(tool["description"].as_str().unwrap());
        let (arguments, effect) = (
            arguments(&tool["inputSchema"]),
            effect(&tool["annotations"]),
        );
        let _ = writeln!(
            table,
            "| `{name}` | {arguments} | {description} | {effect} |"
        );
    }
    let more = toolsets(server).map(|toolset| {
        let names = tool_names(&tools(server, &toolset));
        format!("| `{toolset}` | {names} |\n")
    });
    let more: String = more.collect();
    if !more.is_empty() {
        let _ = write!(table, "\n| Toolset | Tools |\n|---|---|\n{more}");
    }
    table
}

/// The names of a server's toolsets but the default one, in order.
fn toolsets(server: &str) -> impl Iterator<Item = String> {
    let all: Vec<String> = serde_json::from_str(&printed(server, "--print-toolsets")).unwrap();
    all.into_iter().filter(|name| name != "default")
}

fn arguments(schema: &Value) -> String {
    let required = |name: &String| {
        let required = schema["required"].as_array();
        required.is_some_and(|required| required.iter().any(|other| other == name))
    };
    let names = schema["properties"].as_object().unwrap().keys();
    let shown = |name: &String| format!("`{name}`{}", if required(name) { "" } else { "?" });
    names.map(shown).collect::<Vec<_>>().join(", ")
}

fn effect(annotations: &Value) -> &'static str {
    let is = |hint: &str| annotations[hint] == true;
    if is("readOnlyHint") {
        "reads"
    } else if is("destructiveHint") {
        "may lose data"
    } else if is("idempotentHint") {
        "repeatable"
    } else {
        "adds"
    }
}

/// One table of what all servers have, then one for each server of what only it has.
fn option_tables() -> String {
    let of_all = options(SERVERS[0]);
    let is_common = |option: &&Value| option["is_shared"] == true;
    let rows: Vec<_> = of_all
        .iter()
        .filter(is_common)
        .map(|option| option_row(option, &default(option)))
        .collect();
    let mut text = format!("Every server:\n\n{}", option_table(&rows));
    for server in SERVERS {
        let own = options(server);
        let own: Vec<_> = own
            .iter()
            .filter(|option| !is_common(option))
            .map(|option| option_row(option, &plain_default(option)))
            .collect();
        let _ = write!(text, "\n`{server}`:\n\n{}", option_table(&own));
    }
    text
}

fn option_table(rows: &[String]) -> String {
    format!(
        "| Variable | Flag | Default | What it is |\n|---|---|---|---|\n{}",
        rows.concat()
    )
}

fn option_row(option: &Value, default: &str) -> String {
    let flag = option["flag"].as_str().unwrap();
    let variable = option["env"].as_str().unwrap();
    let mut help = cell(option["help"].as_str().unwrap());
    if let Some(values) = option["values"]
        .as_array()
        .filter(|values| !values.is_empty())
    {
        let values: Vec<_> = values.iter().map(|value| value.as_str().unwrap()).collect();
        let _ = write!(help, " (`{}`)", values.join("`, `"));
    }
    format!("| `{variable}` | `{flag}` | {default} | {help} |\n")
}

/// The default of an option that all servers have; the ports differ.
fn default(option: &Value) -> String {
    if option["flag"] == "--port" {
        return SERVERS
            .map(|server| format!("`{}`", port(server)))
            .join(", ");
    }
    for server in SERVERS {
        assert!(
            options(server).contains(option),
            "{server} has another {}",
            option["flag"]
        );
    }
    plain_default(option)
}

fn plain_default(option: &Value) -> String {
    option["default"]
        .as_str()
        .map(|default| format!("`{default}`"))
        .unwrap_or_default()
}

/// Text that cannot end a cell or begin a tag.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('\n', " ")
}
