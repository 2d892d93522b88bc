//! The rules of the registry for the fields that are written, so that they are checked without a network.

use serde_json::Value;

/// The longest name.
const MAX_NAME: usize = 200;

/// The longest title and description.
const MAX_TEXT: usize = 100;

/// Returns what the registry would refuse.
pub(super) fn faults(server: &Value) -> Vec<String> {
    let name = server["name"].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    let mut rule = |is_kept: bool, text: &str| {
        if !is_kept {
            faults.push(format!("{name}: {text}"));
        }
    };
    let is_name = |text: &str, marks: &str| {
        let is_known = |letter: char| letter.is_ascii_alphanumeric() || marks.contains(letter);
        !text.is_empty() && text.chars().all(is_known)
    };
    let parts = name.split_once('/');
    let is_right = parts.is_some_and(|(space, own)| is_name(space, ".-") && is_name(own, "._-"));
    rule(
        is_right && name.len() <= MAX_NAME,
        "name must be NAMESPACE/NAME",
    );
    for key in ["title", "description"] {
        let length = server[key].as_str().map_or(0, |text| text.chars().count());
        rule(
            (1..=MAX_TEXT).contains(&length),
            &format!("{key} must have 1 to {MAX_TEXT} letters"),
        );
    }
    let is_version = |version: &Value| version.as_str().is_some_and(|text| is_name(text, ".-+"));
    rule(
        is_version(&server["version"]),
        "version must be one version",
    );
    for key in ["url", "source"] {
        rule(
            is_text(&server["repository"][key]),
            &format!("repository has no {key}"),
        );
    }
    rule(
        !list(&server["packages"]).is_empty(),
        "packages are missing",
    );
    for package in list(&server["packages"]) {
        let kind = package["registryType"].as_str().unwrap_or_default();
        let mut rule = |is_kept, text: &str| rule(is_kept, &format!("package {kind}: {text}"));
        rule(
            ["npm", "pypi", "oci", "mcpb"].contains(&kind),
            "unknown kind",
        );
        rule(is_text(&package["identifier"]), "identifier is missing");
        rule(
            package["transport"]["type"] == "stdio",
            "transport is not stdio",
        );
        let has_version = package.get("version").is_none_or(is_version);
        rule(
            has_version && package["version"] != "latest",
            "version must be one version",
        );
        let sum = package["fileSha256"].as_str();
        let is_hex = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
        let is_sum = |sum: &str| sum.len() == 64 && sum.chars().all(is_hex);
        rule(
            sum.map_or(kind != "mcpb", is_sum),
            "fileSha256 must be 64 hexadecimal digits",
        );
        for argument in ["packageArguments", "runtimeArguments"]
            .map(|key| list(&package[key]))
            .concat()
        {
            let needed = match argument["type"].as_str() {
                Some("positional") => "value",
                Some("named") => "name",
                _ => "type",
            };
            rule(
                is_text(&argument[needed]) && needed != "type",
                "an argument is incomplete",
            );
        }
        for variable in list(&package["environmentVariables"]) {
            let name = variable["name"].as_str().unwrap_or_default();
            let mut rule = |is_kept, text: &str| rule(is_kept, &format!("{name}: {text}"));
            rule(is_name(name, "_"), "variable without a name");
            let format = variable["format"].as_str().unwrap_or_default();
            rule(
                ["string", "number", "boolean", "filepath"].contains(&format),
                "unknown format",
            );
            for key in ["isRequired", "isSecret"] {
                rule(
                    variable[key].is_boolean(),
                    &format!("{key} must be true or false"),
                );
            }
            for key in ["description", "default", "placeholder"] {
                rule(
                    variable.get(key).is_none_or(Value::is_string),
                    &format!("{key} must be a text"),
                );
            }
            rule(
                list(&variable["choices"]).iter().all(Value::is_string),
                "choices must be texts",
            );
        }
    }
    faults
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_broken_rule_is_told() {
        let right = json!({
            "name": "io.github.owner/a-server", "title": "A", "description": "B", "version": "1.2.3",
            "repository": {"url": "https://github.com/owner/a", "source": "github"},
            "packages": [{
                "registryType": "mcpb", "identifier": "https://a/b.mcpb", "fileSha256": "a".repeat(64),
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "--stdio"}],
                "environmentVariables": [
                    {"name": "A_B", "format": "string", "isRequired": true, "isSecret": false, "choices": ["x"]}
                ],
            }],
        });
        assert_eq!(faults(&right), Vec::<String>::new());
        for (path, wrong) in [
            ("/name", json!("a/b/c")),
            ("/name", json!("a b/c")),
            ("/title", json!("")),
            ("/description", json!("x".repeat(101))),
            ("/version", json!("^1.2.3")),
            ("/repository", json!({})),
            ("/packages", json!([])),
            ("/packages/0/registryType", json!("deb")),
            ("/packages/0/fileSha256", json!("A".repeat(64))),
            ("/packages/0/fileSha256", Value::Null),
            ("/packages/0/transport/type", json!("pipe")),
            ("/packages/0/packageArguments/0/value", Value::Null),
            ("/packages/0/packageArguments/0/type", json!("other")),
            ("/packages/0/environmentVariables/0/format", json!("text")),
            ("/packages/0/environmentVariables/0/isSecret", json!("no")),
            ("/packages/0/environmentVariables/0/choices", json!([1])),
        ] {
            let mut server = right.clone();
            *server.pointer_mut(path).unwrap() = wrong.clone();
            assert!(!faults(&server).is_empty(), "{path}: {wrong}");
        }
    }
}
