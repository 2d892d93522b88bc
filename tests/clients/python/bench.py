"""The echo tool on the official Python SDK, for `cargo xtask bench`: without sessions, with JSON replies."""

import logging
import socket
import sys

import uvicorn
from mcp.server import MCPServer

logging.disable(logging.WARNING)
server = MCPServer("bench", version="1")


@server.tool(structured_output=False)
def echo(value: str) -> str:
    """Returns its argument."""
    return value


app = server.streamable_http_app(json_response=True, stateless_http=True)
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
print(f"bench-python listens on http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
uvicorn.run(app, fd=listener.fileno(), log_level="error")
