"""FastMCP's client: `python fast.py URL SERVER`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from checks import Failed, Outcome, Progress, run
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import McpError


class Fast:
    """`fastmcp.Client` with the interface of the checks."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def version(self) -> str:
        return self.client.protocol_version or ""

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Outcome:
        call = self.client.call_tool(name, arguments, progress_handler=progress, raise_on_error=False)
        result = await known(call)
        return Outcome(result.is_error, result.structured_content, result.content[0].text)

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def read(self, uri: str) -> str:
        [content] = await known(self.client.read_resource(uri))
        return getattr(content, "text", None) or content.blob

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in await self.client.list_prompts()]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        [message] = (await known(self.client.get_prompt(name, arguments))).messages
        return message.content.text


async def known(work: Any) -> Any:
    try:
        return await work
    except McpError as error:
        raise Failed(error.code) from error


@asynccontextmanager
async def connect(transport: str, era: str) -> AsyncIterator[Fast]:
    url, server = sys.argv[1:]
    if transport == "http":
        target = StreamableHttpTransport(url)
    else:
        target = StdioTransport(server, ["--stdio"], keep_alive=False, log_file=Path(os.devnull))
    async with Client(target, mode=era) as client:
        yield Fast(client)


asyncio.run(run("fastmcp", connect))
