//! MCP server for Docker containers.
