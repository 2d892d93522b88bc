//! `server.json` of each program for the registry of MCP: where its packages are and which variables they take.
//! It is made from the bundles in the folder, which may come from builds for several targets.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde_json::{Value, json};

use super::archive::sha256;
use super::product::ProductOption;
use super::{Build, Product, registry};

/// The revision of the format, which is also its address.
pub(crate) const SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// The registry takes no longer description.
const MAX_DESCRIPTION: usize = 100;

/// An address of this machine is another one inside of a container.
const LOOPBACK: &str = "127.0.0.1";
const HOST_OF_CONTAINER: &str = "host.docker.internal";

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let write = |product: &Product| {
        let bundles = bundles(dist, &format!("{}-{}-", product.name, build.version))?;
        ensure!(
            !bundles.is_empty(),
            "{}: make its bundles (mcpb) before",
            product.name
        );
        let length = product.summary.len();
        ensure!(
            length <= MAX_DESCRIPTION,
            "{}: its summary is too long: {length}",
            product.name
        );
        let server = server(product, &build.version, &bundles);
        let file = dist.join(format!("{}-server.json", product.name));
        fs::write(&file, format!("{server:#}\n"))?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

/// Returns the bundles whose names begin so, sorted, each with its sum.
fn bundles(dist: &Path, prefix: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut bundles = Vec::new();
    for entry in fs::read_dir(dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) && name.ends_with(".mcpb") {
            bundles.push((name.clone(), sha256(&fs::read(dist.join(&name))?)));
        }
    }
    bundles.sort();
    Ok(bundles)
}

fn server(product: &Product, version: &str, bundles: &[(String, String)]) -> Value {
    let name = product.name;
    let variables: Vec<_> = registry::options(product).map(variable).collect();
    let mut packages = vec![
        json!({
            "registryType": "npm",
            "identifier": registry::npm(name),
            "version": version,
            "runtimeHint": "npx",
        }),
        json!({
            "registryType": "pypi",
            "identifier": registry::pypi(name),
            "version": version,
            "runtimeHint": "uvx",
        }),
        image(product, version),
    ];
    // The version of these is in the identifier.
    packages.extend(bundles.iter().map(|(file, sum)| {
        json!({
            "registryType": "mcpb",
            "identifier": registry::download(version, file),
            "fileSha256": sum,
        })
    }));
    for package in &mut packages {
        package["transport"] = json!({"type": "stdio"});
        package["packageArguments"] = json!([{"type": "positional", "value": "--stdio"}]);
        if package.get("environmentVariables").is_none() {
            package["environmentVariables"] = json!(variables);
        }
    }
    json!({
        "$schema": SCHEMA,
        "name": registry::mcp(name),
        "title": product.title,
        "description": product.summary,
        "version": version,
        "repository": {"url": registry::REPOSITORY, "source": "github"},
        "websiteUrl": registry::REPOSITORY,
        "packages": packages,
    })
}

fn variable(option: &ProductOption) -> Value {
    let format = match (option.value.as_deref(), option.kind.as_str()) {
        (None, _) => "boolean",
        (_, "integer" | "number") => "number",
        (Some("FILE"), _) => "filepath",
        (Some("DIR"), _) if !option.is_repeatable => "filepath",
        _ => "string",
    };
    let mut variable = json!({
        "name": option.variable,
        "description": option.help,
        "format": format,
        "isRequired": registry::is_needed(option),
        "isSecret": option.is_secret,
    });
    if let Some(default) = option
        .default
        .as_deref()
        .filter(|default| !default.is_empty())
    {
        variable["default"] = json!(default);
    }
    if !option.values.is_empty() {
        variable["choices"] = json!(option.values);
    }
    variable
}

/// Returns the image. In its container the default addresses of services are wrong, and files are not there
/// unless they are mounted: such variables lose their default, and those of files are left out.
fn image(product: &Product, version: &str) -> Value {
    let is_file = |option: &&ProductOption| variable(option)["format"] == "filepath";
    let variables = registry::options(product)
        .filter(|option| !is_file(option))
        .map(|option| {
            let mut variable = variable(option);
            let default = option.default.as_deref();
            if let Some(address) = default.filter(|default| default.contains(LOOPBACK)) {
                variable["isRequired"] = json!(true);
                variable["placeholder"] = json!(address.replace(LOOPBACK, HOST_OF_CONTAINER));
                if let Some(fields) = variable.as_object_mut() {
                    fields.remove("default");
                }
            }
            variable
        });
    let mut image = json!({
        "registryType": "oci",
        "identifier": format!("{}:{version}", registry::image(product.name)),
        "runtimeHint": "docker",
        "environmentVariables": variables.collect::<Vec<_>>(),
    });
    if registry::options(product).any(|option| option.variable == "DOCKER_HOST") {
        image["runtimeArguments"] = json!(socket());
    }
    image
}

/// Returns the arguments with which the user of the image may use the socket of the engine.
fn socket() -> [Value; 2] {
    [
        json!({
            "type": "named",
            "name": "--volume",
            "description": "The socket of the engine. Who may use it controls the machine",
            "value": "/var/run/docker.sock:/var/run/docker.sock",
        }),
        json!({
            "type": "named",
            "name": "--group-add",
            "description": "Group of the socket",
            "value": "{group}",
            "variables": {"group": {
                "description": "Its number: stat -c %g /var/run/docker.sock; 0 with Docker Desktop",
                "format": "number",
                "default": "0",
            }},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::product::tests::example;

    fn example_server() -> Value {
        let sum = "a".repeat(64);
        server(
            &example(),
            "1.2.3",
            &[("docker-mcp-server-1.2.3-linux-x64.mcpb".into(), sum)],
        )
    }

    #[test]
    fn every_kind_of_package_is_there_with_its_proof_of_version() {
        let server = example_server();
        let packages = server["packages"].as_array().unwrap();
        let types: Vec<_> = packages
            .iter()
            .map(|package| &package["registryType"])
            .collect();
        assert_eq!(types, ["npm", "pypi", "oci", "mcpb"]);
        for package in packages {
            // The registry refuses a version where the identifier has it.
            let is_named = matches!(package["registryType"].as_str(), Some("npm" | "pypi"));
            assert_eq!(package.get("version").is_some(), is_named, "{package}");
            let text = package.to_string();
            assert!(text.contains("1.2.3"), "{text}");
            assert_eq!(package["packageArguments"][0]["value"], "--stdio");
        }
    }

    #[test]
    fn secrets_are_marked_and_keys_of_http_left_out() {
        let server = example_server();
        let variables = server["packages"][0]["environmentVariables"]
            .as_array()
            .unwrap();
        let find = |name: &str| variables.iter().find(|variable| variable["name"] == name);
        let key = find("N8N_API_KEY").unwrap();
        assert_eq!(
            (&key["isSecret"], &key["isRequired"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(find("DOCKER_HOST").unwrap()["isSecret"], false);
        assert_eq!(find("MCP_CALL_TIMEOUT").unwrap()["default"], "30");
        assert!(find("MCP_TOKEN").is_none() && find("N8N_API_KEY_FILE").is_none());
    }

    #[test]
    fn addresses_of_this_machine_are_no_default_in_a_container() {
        let server = example_server();
        let variables = server["packages"][2]["environmentVariables"]
            .as_array()
            .unwrap();
        let mut variables = variables.iter();
        let url = variables
            .find(|variable| variable["name"] == "N8N_URL")
            .unwrap();
        assert_eq!(url["placeholder"], "http://host.docker.internal:5678");
        assert_eq!(url["isRequired"], true);
        assert!(url.get("default").is_none());
    }
}
