"""The MCP tools of pydantic-ai: `python pydantic_tools.py URL SERVER`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from checks import BASIC, MODES, Failed, Outcome, run
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import McpError, ToolError
from pydantic_ai.mcp import MCPToolset


class Pydantic:
    """`MCPToolset` with the interface of the checks."""

    def __init__(self, toolset: MCPToolset) -> None:
        self.toolset = toolset

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.toolset.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        try:
            value = await self.toolset.direct_call_tool(name, arguments)
        except ToolError as error:
            return Outcome(True, None, str(error))
        except McpError as error:
            raise Failed(error.code) from error
        return Outcome(False, value, "")


@asynccontextmanager
async def connect(transport: str, mode: str) -> AsyncIterator[Pydantic]:
    url, server = sys.argv[1:]
    stdio = StdioTransport(server, ["--stdio"], keep_alive=False, log_file=Path(os.devnull))
    # By default both kinds of error are text for the model.
    toolset = MCPToolset(url if transport == "http" else stdio, tool_error_behavior="error")
    async with AsyncExitStack() as stack:
        if mode == "session":
            # Without it each call connects.
            await stack.enter_async_context(toolset)
        yield Pydantic(toolset)


asyncio.run(run("pydantic-ai", connect, MODES, BASIC))
