"""FastMCP's proxy in front of a server over HTTP: URL TOKEN PORT."""

import sys

from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy

url, token, port = sys.argv[1:]
proxy = create_proxy(StreamableHttpTransport(url, auth=token))
proxy.run(transport="http", host="127.0.0.1", port=int(port), log_level="error", show_banner=False)
