//! The names of the tools that the gateway itself has.

/// The tool that calls another one.
pub const CALL_TOOL: &str = "call_tool";

/// The names of the gateway's own tools, which no item of a backend can have.
pub const OWN_TOOLS: [&str; 5] = [
    "gateway_status",
    "get_events",
    "gateway_restart",
    "search_tools",
    CALL_TOOL,
];

/// The tools that are listed in place of too many others.
pub const SEARCH_TOOLS: [&str; 2] = ["search_tools", CALL_TOOL];

/// The only one of them about which a person can be asked: the others change nothing, or call another tool.
pub const GUARDED_OWN_TOOL: &str = "gateway_restart";
