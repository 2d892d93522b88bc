"""The official Python SDK: `python sdk.py URL SERVER`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from checks import Failed, Outcome, Progress, run
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client


class Sdk:
    """`mcp.Client` with the interface of the checks."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def version(self) -> str:
        return self.client.protocol_version

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Outcome:
        result = await known(self.client.call_tool(name, arguments, progress_callback=progress))
        return Outcome(bool(result.is_error), result.structured_content, result.content[0].text)

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        [content] = (await known(self.client.read_resource(uri))).contents
        return getattr(content, "text", None) or content.blob

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        [message] = (await known(self.client.get_prompt(name, arguments))).messages
        return message.content.text

    @asynccontextmanager
    async def tools_changed(self) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        async with self.client.listen(tools_list_changed=True) as events:
            yield lambda: anext(events)


async def known(work: Any) -> Any:
    try:
        return await work
    except MCPError as error:
        raise Failed(error.code) from error


@asynccontextmanager
async def connect(transport: str, era: str) -> AsyncIterator[Sdk]:
    url, server = sys.argv[1:]
    with open(os.devnull, "w") as nowhere:
        command = StdioServerParameters(command=server, args=["--stdio"])
        if transport == "stdio":
            target = stdio_client(command, nowhere)
        else:
            target = url if transport == "http" else sse_client(url.replace("/mcp", "/sse"))
        async with Client(target, mode=era) as client:
            yield Sdk(client)


asyncio.run(run("python-mcp", connect, transports=["sse", "http", "stdio"]))
