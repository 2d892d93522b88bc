//! The files below `/etc/mcp`: options in TOML, and secrets as variables.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::Value;

use crate::package::Product;
use crate::package::product::ProductOption;

/// Options that belong to a command line, not to a service.
const NOT_FOR_SERVICES: [&str; 4] = ["--stdio", "--config", "--view", "--backend"];

/// Width of the comments.
const WIDTH: usize = 98;

pub(super) fn path(product: &Product) -> String {
    format!("/etc/mcp/{}.toml", product.name)
}

pub(super) fn environment_path(product: &Product) -> String {
    format!("/etc/mcp/{}.env", product.name)
}

/// Returns the variable that names the file.
pub(super) fn variable(product: &Product) -> &str {
    let mut options = product.options.iter();
    let config = options.find(|option| option.flag == "--config");
    config.map_or("MCP_CONFIG", |option| &option.variable)
}

/// Returns the file with every option as a comment, with its default.
pub(super) fn file(product: &Product) -> anyhow::Result<String> {
    let schema = product.schema()?;
    let table = &schema["properties"];
    // The file of the gateway has these options in a table.
    let in_table = table["server"]["properties"].as_object();
    let keys = in_table
        .or_else(|| table.as_object())
        .context("a schema without properties")?;
    let name = product.name;
    let mut text = format!(
        "# Options of the service {name}: man {name}. Secrets belong into {}.\n# After a change: {name} check --config \
         {} && systemctl restart {name}\n",
        environment_path(product),
        path(product),
    );
    if in_table.is_some() {
        text += "\n# The MCP servers behind the gateway. Without any: the n8n, OpenHands and Docker servers on this \
                 machine.\n#[backends.docker]\n#url = \"http://127.0.0.1:3458/mcp\"\n\n#[server]\n";
    }
    let mut in_common = false;
    for option in &product.options {
        let is_left_out = option.is_secret || NOT_FOR_SERVICES.contains(&option.flag.as_str());
        let Some(property) = keys.get(&option.key()).filter(|_| !is_left_out) else {
            continue;
        };
        if option.is_common && !in_common {
            in_common = true;
            text += "\n# Options of every server\n";
        }
        let mut help = option.help.clone();
        if !option.values.is_empty() {
            let _ = write!(help, " ({})", option.values.join(", "));
        }
        if option.is_required {
            help += " (required)";
        }
        let (key, value) = (option.key(), value(option, property));
        let _ = write!(text, "\n{}#{key} = {value}\n", comment(&help));
    }
    Ok(text)
}

/// Returns the file with the secrets, which only root can read.
pub(super) fn environment(product: &Product) -> String {
    let name = product.name;
    let mut text = format!(
        "# Secrets of the service {name}, as VARIABLE=VALUE. systemd reads this file; only root can.\n# After a change: \
         systemctl restart {name}\n"
    );
    for option in product.options.iter().filter(|option| option.is_secret) {
        let _ = write!(text, "\n{}", comment(&option.help));
        let mut others = product.options.iter();
        let flag = Some(&option.flag);
        if let Some(file) = others.find(|other| other.file_of.as_ref() == flag) {
            let or = format!(
                "Or name a file with it: {}=%d/NAME, of LoadCredential=NAME:FILE in a drop-in of the unit, \
                              in Environment= there",
                file.variable
            );
            text += &comment(&or);
        }
        let _ = writeln!(text, "#{}=", option.variable);
    }
    text
}

/// Returns the default, or the name of the value as in `--help`.
fn value(option: &ProductOption, property: &Value) -> String {
    let name = option.value.as_deref().unwrap_or_default();
    match (&property["default"], option.kind.as_str()) {
        (Value::Null, "integer" | "number") => "1".to_owned(),
        (Value::Null, _) if option.is_repeatable => format!("[{name:?}]"),
        (Value::Null, _) => format!("{name:?}"),
        (default, _) => default.to_string(),
    }
}

/// Returns a text as lines of a comment.
fn comment(text: &str) -> String {
    let mut lines = String::from("#");
    let mut width = 1;
    for word in text.split_whitespace() {
        if width + 1 + word.len() > WIDTH {
            lines += "\n#";
            width = 1;
        }
        lines += " ";
        lines += word;
        width += 1 + word.len();
    }
    lines + "\n"
}
