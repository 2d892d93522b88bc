//! The servers of this workspace: the name of each one's service, its program and its default port. The gateway stands in
//! front of them if no backend is named; xtask and the tests read the same table.

/// All servers, in the order of their ports.
pub(crate) const SERVERS: &[(&str, &str, u16)] = &[
    ("n8n", "n8n-mcp-server", 3456),
    ("openhands", "openhands-mcp-server", 3457),
    ("docker", "docker-mcp-server", 3458),
];
