//! The files of `xtask/packaging` name the options, variables and tools that the programs have.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::committed::root;
use crate::surface::{SERVERS, printed};

/// Options that belong to a command line, not to a service.
const NOT_FOR_SERVICES: [&str; 4] = ["--stdio", "--config", "--view", "--backend"];

fn read(server: &str, end: &str) -> String {
    let file = root().join(format!("xtask/packaging/{server}/{end}"));
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_secret(option: &&Value) -> bool {
    option["secret"] == true
}

#[test]
fn services_have_every_option_and_every_secret_as_a_comment() {
    for server in SERVERS {
        let options = parsed(&printed(server, "--print-options"));
        let schema = parsed(&printed(server, "schema"));
        let table = &schema["properties"];
        // The file of the gateway has these options in a table.
        let keys = table["server"]["properties"]
            .as_object()
            .or(table.as_object())
            .unwrap();
        let for_service = |option: &&Value| {
            !is_secret(option) && !NOT_FOR_SERVICES.contains(&&*text(&option["flag"]))
        };
        let key = |option: &Value| {
            text(&option["flag"])
                .trim_start_matches('-')
                .replace('-', "_")
        };
        let expected: BTreeSet<_> = list(&options).iter().filter(for_service).map(key).collect();
        let expected: BTreeSet<_> = expected
            .into_iter()
            .filter(|key| keys.contains_key(key))
            .collect();
        let file = read(server, &format!("{server}.toml"));
        let found = file
            .lines()
            .filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
        // `url` is of the example of a backend.
        let found: BTreeSet<_> = found
            .map(|(key, _)| key.to_owned())
            .filter(|key| key != "url")
            .collect();
        assert_eq!(found, expected, "{server}.toml");

        let expected: BTreeSet<_> = list(&options)
            .iter()
            .filter(is_secret)
            .map(|option| text(&option["env"]))
            .collect();
        let file = read(server, &format!("{server}.env"));
        let found = file
            .lines()
            .filter_map(|line| line.strip_prefix('#')?.strip_suffix('='));
        assert_eq!(
            found.map(str::to_owned).collect::<BTreeSet<_>>(),
            expected,
            "{server}.env"
        );
    }
}

#[test]
fn registries_and_bundles_name_variables_and_tools_of_the_program() {
    for server in SERVERS {
        let options = parsed(&printed(server, "--print-options"));
        let find = |variable: &str| {
            list(&options)
                .iter()
                .find(|option| option["env"] == variable)
        };
        let manifest = parsed(&read(server, "manifest.json"));
        let form = &manifest["user_config"];
        for (variable, value) in manifest["server"]["mcp_config"]["env"].as_object().unwrap() {
            let option = find(variable).unwrap_or_else(|| panic!("{server}: no {variable}"));
            let key = text(value).replace("${user_config.", "").replace('}', "");
            let field = &form[&key];
            assert_eq!(
                field["sensitive"] == true,
                is_secret(&option),
                "{server}: {variable}"
            );
            assert!(
                field["required"] == true || field.get("default").is_some(),
                "{server}: {variable}"
            );
        }
        let names = |tools: &Value| {
            list(tools)
                .iter()
                .map(|tool| text(&tool["name"]))
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            names(&manifest["tools"]),
            names(&parsed(&printed(server, "--print-tools"))),
            "{server}"
        );

        let is_own = |option: &&Value| {
            let is_file = text(&option["flag"]).contains("-file");
            option["is_shared"] == false && option["heading"] != "Configuration" && !is_file
        };
        let own = list(&options)
            .iter()
            .filter(is_own)
            .map(|option| text(&option["env"]));
        let own: BTreeSet<_> = own.collect();
        for package in list(&parsed(&read(server, "server.json"))["packages"]) {
            let variables = list(&package["environmentVariables"]);
            for variable in variables {
                let option = find(&text(&variable["name"]));
                let option = option.unwrap_or_else(|| panic!("{server}: no {variable}"));
                assert_eq!(
                    variable["isSecret"] == true,
                    is_secret(&option),
                    "{server}: {variable}"
                );
            }
            let named: BTreeSet<_> = variables
                .iter()
                .map(|variable| text(&variable["name"]))
                .collect();
            if package["registryType"] == "npm" {
                assert!(
                    named.is_superset(&own),
                    "{server}: {:?}",
                    own.difference(&named)
                );
            }
        }
    }
}
