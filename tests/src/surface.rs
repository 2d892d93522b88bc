//! The published tools of the servers: their snapshots, their fitness for hosts, their cost in tokens.

mod lint;

use mcp_core::tool::tokens;
use serde_json::Value;

use crate::commands;

#[path = "../../crates/mcp-gateway/src/servers.rs"]
mod table;

/// The servers, in the order of their ports.
pub(crate) const SERVERS: [&str; table::SERVERS.len() + 1] = {
    let mut servers = ["mcp-gateway"; table::SERVERS.len() + 1];
    let mut at = 0;
    while at < table::SERVERS.len() {
        servers[at + 1] = table::SERVERS[at].1;
        at += 1;
    }
    servers
};

/// Limit of a server's tool list, in tokens: names, descriptions and input schemas are sent with every
/// turn of a conversation.
const MAX_TOKENS: usize = 2_500;
/// The limit with output schemas.
const MAX_TOKENS_WITH_OUTPUT: usize = 5_000;

/// The output of a server with these arguments, in an empty environment and without its service.
pub(crate) fn printed(server: &str, args: &str) -> String {
    let args: Vec<&str> = args.split(' ').collect();
    run(server, &args)
}

fn run(server: &str, args: &[&str]) -> String {
    let ended = commands::run(server, args, &[]);
    let complaint = (ended.code, &*ended.stderr);
    assert_eq!(complaint, (0, ""), "{server} {args:?}");
    ended.stdout
}

/// The options of a server, as it prints them.
pub(crate) fn options(server: &str) -> Vec<Value> {
    serde_json::from_str(&printed(server, "--print-options")).unwrap()
}

/// The definitions of the tools of one toolset of a server, or of all.
pub(crate) fn tools(server: &str, toolset: &str) -> Vec<Value> {
    serde_json::from_str(&run(server, &["--print-tools", "--toolsets", toolset])).unwrap()
}

#[test]
fn snapshots_are_fresh() {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        for server in SERVERS {
            let all = run(server, &["--print-tools", "--toolsets", "all"]);
            insta::assert_snapshot!(format!("{server}.tools"), all);
        }
    });
}

#[test]
fn tools_work_with_every_host() {
    let mut faults = Vec::new();
    for server in SERVERS {
        let tools = tools(server, "all");
        let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].to_string()).collect();
        names.sort();
        names.dedup();
        if names.len() < tools.len() {
            faults.push(format!("{server}: two tools have the same name"));
        }
        let found = tools.iter().flat_map(lint::faults);
        faults.extend(found.map(|fault| format!("{server}: {fault}")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn tools_cost_few_tokens() {
    for server in SERVERS {
        let tools = tools(server, "default");
        let output: usize = tools
            .iter()
            .map(|tool| tool["outputSchema"].to_string().len())
            .sum();
        let input = tokens_of(&tools);
        for (what, tokens, most) in [
            ("without", input, MAX_TOKENS),
            ("with", input + output / 4, MAX_TOKENS_WITH_OUTPUT),
        ] {
            eprintln!("{server}: {tokens} tokens {what} output schemas, at most {most}");
            assert!(tokens <= most, "{server}: {tokens} tokens {what}");
        }
    }
}

/// The default tools of the Docker server, and all of them.
#[test]
fn tools_of_docker_are_few() {
    for (toolset, most_tools, most_tokens) in [("default", 7, 1_000), ("all", 38, 6_500)] {
        let tools = tools("docker-mcp-server", toolset);
        let tokens = tokens_of(&tools);
        eprintln!("{toolset}: {} tools, {tokens} tokens", tools.len());
        assert!(
            tools.len() <= most_tools && tokens <= most_tokens,
            "{toolset}"
        );
    }
}

fn tokens_of(tools: &[Value]) -> usize {
    let tools = tools.iter();
    tools.map(|tool| tokens(&tool.to_string())).sum()
}
