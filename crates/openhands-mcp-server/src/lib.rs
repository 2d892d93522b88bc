//! MCP server for OpenHands: hand a coding task to an agent and get the result back.
