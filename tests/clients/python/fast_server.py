"""A small FastMCP server over stdio. It can ask its user only below 2026-07-28."""

from dataclasses import dataclass

from fastmcp import Context, FastMCP

server = FastMCP("fast-server", version="1.0.0")


@dataclass
class Name:
    name: str


@server.tool
async def ask(ctx: Context) -> str:
    """Asks the user for a name."""
    answer = await ctx.elicit("Who are you?", response_type=Name)
    return f"Hello, {answer.data.name}!"


server.run(show_banner=False)
