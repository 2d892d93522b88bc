//! MCPB bundles, which desktop hosts install with a click and a form for the options. A manifest names no
//! processor, so there is one bundle for each platform.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::archive::{Entry, zip};
use super::product::ProductOption;
use super::{Build, Product, files, npm, registry};

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let (system, processor) = npm::platform(build);
    let write = |product: &Product| {
        let program = format!("server/{}", build.file(product.name));
        let manifest = manifest(product, &build.version, system, &program);
        let mut entries = vec![
            Entry::new("manifest.json", format!("{manifest:#}\n")),
            Entry::program(&program, &build.program(product.name))?,
        ];
        entries.extend(files::licences(build)?);
        let name = format!(
            "{}-{}-{system}-{processor}.mcpb",
            product.name, build.version
        );
        let file = dist.join(name);
        fs::write(&file, zip(&entries, build.epoch)?)?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

fn manifest(product: &Product, version: &str, system: &str, program: &str) -> Value {
    let options: Vec<_> = registry::options(product)
        .filter(|option| fits(option))
        .collect();
    let form: Map<_, _> = options
        .iter()
        .map(|option| (option.key(), field(option)))
        .collect();
    let variables: Map<_, _> = options
        .iter()
        .map(|option| {
            let value = format!("${{user_config.{}}}", option.key());
            (option.variable.clone(), json!(value))
        })
        .collect();
    json!({
        "manifest_version": "0.3",
        "name": product.name,
        "display_name": product.title,
        "version": version,
        "description": product.summary,
        "author": {"name": registry::owner(), "url": registry::REPOSITORY},
        "license": registry::LICENSE,
        "repository": {"type": "git", "url": format!("{}.git", registry::REPOSITORY)},
        "homepage": registry::REPOSITORY,
        "keywords": ["mcp", product.service.to_lowercase()],
        "server": {
            "type": "binary",
            "entry_point": program,
            "mcp_config": {
                "command": format!("${{__dirname}}/{program}"),
                "args": ["--stdio"],
                "env": variables,
            },
        },
        "tools": product.tools.iter().map(tool).collect::<Vec<_>>(),
        // Options decide which of them are offered, and which others.
        "tools_generated": true,
        "compatibility": {"platforms": [system]},
        "user_config": form,
    })
}

/// Returns true if the option can be a field. Hosts pass a blank field on as a blank variable, which programs
/// refuse as a path, a list or a number: such options are left out unless they have a default or are required.
fn fits(option: &ProductOption) -> bool {
    let is_path = matches!(option.value.as_deref(), Some("FILE" | "DIR"));
    let is_plain = option.kind == "flag" || (option.kind == "text" && !is_path);
    let may_be_blank = is_plain && !option.is_repeatable;
    may_be_blank || option.default.is_some() || registry::is_needed(option)
}

/// Returns a tool with the first sentence of its description.
fn tool(tool: &Value) -> Value {
    let description = tool["description"].as_str().unwrap_or_default();
    let first = description.split(". ").next().unwrap_or_default();
    json!({"name": tool["name"], "description": first.trim_end_matches('.')})
}

/// Returns a field of the form. Each has a default: hosts leave `${user_config.…}` as it is in variables whose
/// field is blank and has none. A blank text counts as unset.
fn field(option: &ProductOption) -> Value {
    let default = option.default.as_deref();
    let number = default.and_then(|default| default.parse::<serde_json::Number>().ok());
    let is_number = matches!(option.kind.as_str(), "integer" | "number");
    let (kind, default) = match (option.value.as_deref(), number) {
        (None, _) => ("boolean", json!(false)),
        (_, Some(number)) if is_number => ("number", json!(number)),
        (Some("FILE"), _) => ("file", json!("")),
        _ => ("string", json!(default.unwrap_or_default())),
    };
    let is_needed = registry::is_needed(option);
    let mut field = json!({
        "type": kind,
        "title": registry::label(option),
        "description": option.help,
        "required": is_needed,
    });
    if option.is_secret {
        field["sensitive"] = json!(true);
    }
    if !is_needed {
        field["default"] = default;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::product::tests::example;

    #[test]
    fn every_variable_is_a_field_and_every_field_has_a_value() {
        let manifest = manifest(&example(), "1.2.3", "linux", "server/docker-mcp-server");
        let form = manifest["user_config"].as_object().unwrap();
        let variables = manifest["server"]["mcp_config"]["env"].as_object().unwrap();
        assert_eq!(form.len(), variables.len());
        for value in variables.values() {
            let key = value
                .as_str()
                .unwrap()
                .strip_prefix("${user_config.")
                .unwrap();
            let field = &form[key.strip_suffix('}').unwrap()];
            let has_value = field["required"] == true || field.get("default").is_some();
            assert!(has_value, "{key}: {field}");
        }
        assert!(!variables.contains_key("MCP_TOKEN"), "not for HTTP");
        assert!(
            !variables.contains_key("MAX_COST"),
            "a blank number is refused"
        );
    }

    #[test]
    fn secrets_are_sensitive_and_the_needed_one_is_required() {
        let product = example();
        let field = |variable: &str| {
            let mut options = product.options.iter();
            field(options.find(|option| option.variable == variable).unwrap())
        };
        let key = field("N8N_API_KEY");
        assert_eq!(key["sensitive"], true);
        assert_eq!(key["required"], true);
        assert_eq!(key["title"], "n8n API key");
        assert_eq!(field("MCP_READ_ONLY")["type"], "boolean");
        assert_eq!(field("MCP_CALL_TIMEOUT")["default"], 30);
        assert_eq!(field("DOCKER_HOST")["default"], "");
    }

    #[test]
    fn tools_are_described_by_one_sentence() {
        let definition = json!({"name": "a", "description": "Lists a. Then b."});
        assert_eq!(tool(&definition)["description"], "Lists a");
    }
}
