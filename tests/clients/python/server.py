"""A small server on the official Python SDK: `server.py` over stdio, `server.py --http` on a free port."""

import sys
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("python-server", version="1.0.0")
running = 0


class Sum(BaseModel):
    sum: int


class Name(BaseModel):
    name: str


async def name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("it cannot be done")


@server.tool()
async def wait(ctx: Context) -> str:
    """Waits until it is cancelled."""
    global running
    running += 1
    try:
        await ctx.report_progress(1, 2, "waiting")
        await anyio.sleep_forever()
    finally:
        running -= 1
    return "never"


@server.tool()
def waiting() -> Sum:
    """Returns the number of waiting calls."""
    return Sum(sum=running)


@server.tool()
async def ask(answer: Annotated[Name, Resolve(name)]) -> str:
    """Asks the user for a name."""
    return f"Hello, {answer.name}!"


@server.resource("note://greeting")
def greeting() -> str:
    """A greeting."""
    return "Grüße ✓"


@server.resource("note://{number}/text")
def note(number: str) -> str:
    """A note."""
    return f"Note {number}"


@server.prompt()
def greet(name: str) -> str:
    """Greets a person."""
    return f"Say hello to {name}."


if sys.argv[1:] == ["--http"]:
    server.run("streamable-http", port=0)
else:
    server.run()
