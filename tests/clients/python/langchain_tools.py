"""langchain-mcp-adapters, which connects for each call by default: `python langchain_tools.py URL SERVER`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from checks import BASIC, MODES, Failed, Outcome, run
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool, load_mcp_tools
from mcp import McpError, Tool


class LangChain:
    """The tools of LangChain with the interface of the checks."""

    def __init__(self, client: MultiServerMCPClient, session: Any) -> None:
        self.client = client
        self.session = session

    async def loaded(self) -> dict[str, BaseTool]:
        tools = await (load_mcp_tools(self.session) if self.session else self.client.get_tools())
        return {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(await self.loaded())

    async def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        # One that was removed after the list was read.
        removed = Tool(name=name, inputSchema={"type": "object", "properties": {}})
        connection = self.client.connections["server"]
        removed = convert_mcp_tool_to_langchain_tool(self.session, removed, connection=connection)
        tool = (await self.loaded()).get(name, removed)
        try:
            message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        except McpError as error:
            raise Failed(error.error.code) from error
        structured = message.artifact["structured_content"] if message.artifact else None
        return Outcome(message.status == "error", structured, message.text)


@asynccontextmanager
async def connect(transport: str, mode: str) -> AsyncIterator[LangChain]:
    url, server = sys.argv[1:]
    http = {"transport": "streamable_http", "url": url}
    stdio = {"transport": "stdio", "command": server, "args": ["--stdio"]}
    client = MultiServerMCPClient({"server": http if transport == "http" else stdio})
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(client.session("server")) if mode == "session" else None
        yield LangChain(client, session)


asyncio.run(run("langchain", connect, MODES, BASIC))
