//! The published tools of the servers: their snapshots, their fitness for hosts, their cost in tokens.

mod lint;

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

/// The limits of a server's tool list, by server and toolset: the number of tools; tokens, as names, descriptions and input
/// schemas are sent with every turn of a conversation; and tokens with the output schemas, which some hosts send, too.
const LIMITS: [(&str, &str, usize, usize, usize); 6] = [
    ("mcp-gateway", "default", 3, 500, 1_500),
    ("n8n-mcp-server", "default", 4, 1_000, 3_500),
    ("n8n-mcp-server", "all", 48, 9_000, 16_500),
    ("docker-mcp-server", "default", 7, 1_000, 3_600),
    ("docker-mcp-server", "all", 38, 6_500, 14_000),
    ("openhands-mcp-server", "default", 10, 2_000, 3_500),
];

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
fn tools_are_few_and_cost_few_tokens() {
    for server in SERVERS {
        let has_row = LIMITS.iter().any(|limit| limit.0 == server);
        assert!(has_row, "{server} has no row in LIMITS");
    }
    for (server, toolset, most_tools, most, most_with_output) in LIMITS {
        let tools = tools(server, toolset);
        let [plain, whole] = [false, true].map(|output| tokens(&tools, output));
        let cost = format!(
            "{server} {toolset}: {} tools, {plain} tokens, {whole} with output",
            tools.len()
        );
        eprintln!("{cost}");
        assert!(
            tools.len() <= most_tools && plain <= most && whole <= most_with_output,
            "{cost}; at most {most_tools} tools, {most} tokens, {most_with_output} with output"
        );
    }
}

/// The tokens of a list, with the output schemas or without.
fn tokens(tools: &[Value], with_output: bool) -> usize {
    let output = |tool: &Value| match &tool["outputSchema"] {
        Value::Null => 0,
        schema => schema.to_string().len() / 4,
    };
    let tools = tools.iter();
    tools
        .map(|tool| {
            mcp_core::tool::tokens(&tool.to_string()) + if with_output { output(tool) } else { 0 }
        })
        .sum()
}
