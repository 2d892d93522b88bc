//! MCP server for n8n: list workflows and really run them.
