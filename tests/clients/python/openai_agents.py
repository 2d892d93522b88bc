"""The MCP servers of openai-agents: `python openai_agents.py URL SERVER`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from checks import BASIC, MODES, Failed, Outcome, run
from mcp import McpError


class OpenAi:
    """`agents.mcp.MCPServer` with the interface of the checks."""

    def __init__(self, transport: str, server: MCPServer | None) -> None:
        self.transport = transport
        self.server = server

    async def tools(self) -> list[str]:
        async with self.connected() as server:
            return [tool.name for tool in await server.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        async with self.connected() as server:
            try:
                result = await server.call_tool(name, arguments)
            except McpError as error:
                raise Failed(error.error.code) from error
        return Outcome(bool(result.isError), result.structuredContent, result.content[0].text)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[MCPServer]:
        if self.server:
            yield self.server
            return
        async with new(self.transport) as server:
            yield server


def new(transport: str) -> MCPServer:
    url, server = sys.argv[1:]
    if transport == "http":
        return MCPServerStreamableHttp({"url": url})
    return MCPServerStdio({"command": server, "args": ["--stdio"]}, client_session_timeout_seconds=20)


@asynccontextmanager
async def connect(transport: str, mode: str) -> AsyncIterator[OpenAi]:
    if mode != "session":
        yield OpenAi(transport, None)
        return
    async with new(transport) as server:
        yield OpenAi(transport, server)


asyncio.run(run("openai-agents", connect, MODES, BASIC))
