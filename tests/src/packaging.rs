//! The files of `xtask/packaging` name the options, variables and tools that the programs have.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::commands::run;
use crate::committed::{check, root};
use crate::readme::port;
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The comment above the key `key` of a file with options.
fn comment_of(file: &str, key: &str) -> String {
    let (before, _) = file.split_once(&format!("\n#{key} = ")).unwrap();
    let (_, comment) = before.rsplit_once("\n\n").unwrap();
    one_line(&comment.replace("\n# ", "\n").replacen("# ", "", 1))
}

/// The lists of all programs in other files, each between two texts of the file.
#[test]
fn lists_of_programs_are_fresh() {
    let (gateway, servers) = (&SERVERS[..1], &SERVERS[1..]);
    let all = [servers, gateway].concat();
    let options = all.iter().map(|program| format!("        - {program}\n"));
    let targets = SERVERS.map(|program| format!("\"127.0.0.1:{}\"", port(program)));
    let backends = |is_local: bool, token: &str| -> String {
        let backend = |program: &&str| {
            let host = if is_local { "127.0.0.1" } else { program };
            let (name, port) = (program.trim_end_matches("-mcp-server"), port(program));
            format!("\n[backends.{name}]\nurl = \"http://{host}:{port}/mcp\"\n{token}")
        };
        servers.iter().map(backend).collect()
    };
    let fill = |path: &str, begin: &str, end: &str, list: &str| {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let (before, rest) = text.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        check(path, &format!("{before}{begin}{list}{end}{after}"));
    };
    fill(
        ".github/workflows/release.yml",
        "PROGRAMS: ",
        "\n",
        &all.join(" "),
    );
    let (form, options) = (
        ".github/ISSUE_TEMPLATE/bug.yml",
        options.collect::<String>(),
    );
    fill(form, "options:\n", "        - cargo", &options);
    fill(
        "docker-compose.yml",
        "MCP_ALLOWED_HOSTS: ",
        "\n",
        &all.join(","),
    );
    fill(
        "docs/monitoring.md",
        "- targets: [",
        "]",
        &targets.join(", "),
    );
    let (file, begin) = (
        "xtask/packaging/mcp-gateway/mcp-gateway.toml",
        "tried again until it does.\n",
    );
    fill(file, begin, "\n#[server]", &backends(true, ""));
    let path = "deploy/gateway.toml";
    let text = fs::read_to_string(root().join(path)).unwrap();
    let (head, backends) = (
        text.lines().next().unwrap(),
        backends(false, "token = \"${MCP_TOKEN}\"\n"),
    );
    check(path, &format!("{head}\n{backends}"));
}

#[test]
fn compose_file_starts_every_program() {
    let text = fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    for server in SERVERS {
        assert!(text.contains(&format!("\n  {server}:\n")), "{server}");
    }
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
            let flag = text(&option["flag"]);
            flag.trim_start_matches('-').replace('-', "_")
        };
        let mut expected: BTreeSet<_> =
            list(&options).iter().filter(for_service).map(key).collect();
        expected.retain(|key| keys.contains_key(key));
        // Details that have no option stand in the file alone.
        let named: BTreeSet<_> = list(&options).iter().map(key).collect();
        expected.extend(keys.keys().filter(|name| !named.contains(*name)).cloned());
        let file = read(server, &format!("{server}.toml"));
        let lines = file.lines();
        let found = lines.filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
        let found: BTreeSet<_> = found.map(|(key, _)| key.to_owned()).collect();
        assert_eq!(found, expected, "{server}.toml");
        for option in list(&options)
            .iter()
            .filter(|one| expected.contains(&key(one)))
        {
            let values: Vec<_> = list(&option["values"]).iter().map(text).collect();
            let is_list = !values.is_empty() && option["type"] != "boolean";
            let values = match is_list {
                true => format!(" ({})", values.join(", ")),
                false => String::new(),
            };
            let help = one_line(&text(&option["help"])) + &values;
            let comment = comment_of(&file, &key(option));
            assert_eq!(comment, help, "{server}.toml, {}", key(option));
        }

        let secrets = list(&options).iter().filter(is_secret);
        let expected: BTreeSet<_> = secrets.map(|option| text(&option["env"])).collect();
        let file = read(server, &format!("{server}.env"));
        let lines = file.lines();
        let found = lines.filter_map(|line| line.strip_prefix('#')?.strip_suffix('='));
        let found: BTreeSet<_> = found.map(str::to_owned).collect();
        assert_eq!(found, expected, "{server}.env");
    }
}

/// A service whose own file is refused does not start after its installation.
#[test]
fn services_accept_their_own_file() {
    for server in SERVERS {
        let file = root().join(format!("xtask/packaging/{server}/{server}.toml"));
        let args = ["doctor", "--offline", "--config", file.to_str().unwrap()];
        let ended = run(server, &args, &[]);
        assert_eq!(ended.code, 0, "{server}: {}", ended.stdout);
    }
}

#[test]
fn registries_and_bundles_name_variables_and_tools_of_the_program() {
    for server in SERVERS {
        let options = parsed(&printed(server, "--print-options"));
        let find = |variable: &str| {
            let mut options = list(&options).iter();
            options.find(|option| option["env"] == variable)
        };
        let manifest = parsed(&read(server, "manifest.json"));
        let form = &manifest["user_config"];
        for (variable, value) in manifest["server"]["mcp_config"]["env"].as_object().unwrap() {
            let option = find(variable).unwrap_or_else(|| panic!("{server}: no {variable}"));
            let key = text(value).replace("${user_config.", "").replace('}', "");
            let field = &form[&key];
            let is_sensitive = field["sensitive"] == true;
            assert_eq!(is_sensitive, is_secret(&option), "{server}: {variable}");
            let has_value = field["required"] == true || field.get("default").is_some();
            assert!(has_value, "{server}: {variable}");
        }
        let names = |tools: &Value| -> BTreeSet<String> {
            list(tools).iter().map(|tool| text(&tool["name"])).collect()
        };
        let tools = parsed(&printed(server, "--print-tools"));
        assert_eq!(names(&manifest["tools"]), names(&tools), "{server}");

        let is_own = |option: &&Value| {
            let is_file = text(&option["flag"]).contains("-file");
            option["is_shared"] == false && option["heading"] != "Configuration" && !is_file
        };
        let own = list(&options).iter().filter(is_own);
        let own: BTreeSet<_> = own.map(|option| text(&option["env"])).collect();
        for package in list(&parsed(&read(server, "server.json"))["packages"]) {
            let variables = list(&package["environmentVariables"]);
            for variable in variables {
                let option = find(&text(&variable["name"]));
                let option = option.unwrap_or_else(|| panic!("{server}: no {variable}"));
                let is_named_secret = variable["isSecret"] == true;
                assert_eq!(is_named_secret, is_secret(&option), "{server}: {variable}");
                let help = one_line(&text(&option["help"]));
                assert_eq!(text(&variable["description"]), help, "{server}");
            }
            let named = variables.iter().map(|variable| text(&variable["name"]));
            let named: BTreeSet<_> = named.collect();
            if package["registryType"] == "npm" {
                let left_out: Vec<_> = own.difference(&named).collect();
                assert!(left_out.is_empty(), "{server}: {left_out:?}");
            }
        }
    }
}
