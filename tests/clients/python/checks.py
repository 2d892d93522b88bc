"""The checks of the client matrix; prints one line for each.

`Peer` hides only the names of a library: what the library makes of our answers is checked.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

VALUE = {"text": "Grüße ✓ \u2028", "huge": 123456789012345678901234567890, "list": [1, 2.5, None, True, {}]}
TEXT = "This is the content of the static text resource."
PNG = "iVBORw0KGgo"
PROMPT = "Prompt with arguments: arg1='one', arg2='two'"

# The modes of both clients, and the revision that each must negotiate.
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}

# Timeout of each check, in seconds.
CHECK_TIMEOUT = 20.0


class Failed(Exception):
    """A protocol error with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


@dataclass
class Outcome:
    """The result of a tool call."""

    is_error: bool
    structured: Any
    text: str


Progress = Callable[[float, float | None, str | None], Awaitable[None]]


class Peer(Protocol):
    """A connected client."""

    @property
    def version(self) -> str: ...
    async def tools(self) -> list[str]: ...
    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Outcome: ...
    async def resources(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...
    async def prompts(self) -> list[str]: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> str: ...


def same(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def has(many: list[str] | str, one: str) -> None:
    if one not in many:
        raise AssertionError(f"no {one!r} in {many!r}")


async def refused(work: Awaitable[Any], code: int) -> None:
    try:
        found = await work
    except Failed as failed:
        same(failed.code, code)
    else:
        raise AssertionError(f"{found!r} instead of error {code}")


async def negotiate(peer: Peer, version: str) -> None:
    same(peer.version, version)


async def list_tools(peer: Peer, _: str) -> None:
    tools = await peer.tools()
    for name in ["echo", "slow", "fail"]:
        has(tools, name)
    same(len(tools), len(set(tools)))


async def call(peer: Peer, _: str) -> None:
    outcome = await peer.call("echo", {"value": VALUE})
    same(outcome.is_error, False)
    same(outcome.structured, {"value": VALUE})


async def error(peer: Peer, _: str) -> None:
    outcome = await peer.call("fail", {})
    same((outcome.is_error, outcome.text), (True, "The service failed; try again later."))
    await refused(peer.call("no_such_tool", {}), -32602)


async def progress(peer: Peer, _: str) -> None:
    seen = []

    async def note(*step: Any) -> None:
        seen.append(step)

    outcome = await peer.call("slow", {"step": 5, "steps": 5}, note)
    same(outcome.structured, {"done": 5})
    same(seen, [(done, 5, f"step {done} of 5") for done in range(1, 6)])


async def cancel(peer: Peer, _: str) -> None:
    begun = asyncio.Event()

    async def note(*_: Any) -> None:
        begun.set()

    slow = asyncio.create_task(peer.call("slow", {"step": 100, "steps": 300}, note))
    await asyncio.wait_for(begun.wait(), CHECK_TIMEOUT)
    same(await running(peer), 1)
    slow.cancel()
    await asyncio.wait([slow], timeout=CHECK_TIMEOUT)
    same(slow.cancelled(), True)
    # The server is notified a moment later; the connection stays open.
    until = time.monotonic() + 5
    while await running(peer) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    same(await running(peer), 0)


async def running(peer: Peer) -> int:
    return (await peer.call("count_slow", {})).structured["running"]


async def resource(peer: Peer, version: str) -> None:
    uris = await peer.resources()
    has(uris, "test://static-text")
    same(await peer.read("test://static-text"), TEXT)
    has(await peer.read("test://static-binary"), PNG)
    has(await peer.read("test://template/42/data"), '"id":"42"')
    await refused(peer.read("test://nothing"), -32602 if version >= "2026" else -32002)


async def prompt(peer: Peer, _: str) -> None:
    has(await peer.prompts(), "test_prompt_with_arguments")
    same(await peer.prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"}), PROMPT)
    await refused(peer.prompt("no_such_prompt", {}), -32602)


async def added_backend(peer: Peer, other: Peer) -> None:
    """A backend that is added to the gateway is listed within a second of the notification, also for a
    client that is not notified and has listed the tools before."""
    with open(CONFIG, encoding="utf-8") as file:
        before = file.read()
    added = before.replace("bare = true", "").replace("[backends.fixture]", "[backends.added]")
    await other.tools()
    try:
        async with peer.tools_changed() as changed:
            for config, is_listed in [(before + added, True), (before, False)]:
                with open(CONFIG, "w", encoding="utf-8") as file:
                    file.write(config)
                await changed()
                until = time.monotonic() + 1
                while ("added__echo" in await other.tools()) != is_listed:
                    if time.monotonic() > until:
                        raise AssertionError(f"listed: {not is_listed}, a second after the notification")
    finally:
        with open(CONFIG, "w", encoding="utf-8") as file:
            file.write(before)


# The configuration file of the gateway, if the server is one.
CONFIG = os.environ.get("MCP_GATEWAY_CONFIG")

BASIC = [list_tools, call, error]
CHECKS = [negotiate, *BASIC, progress, cancel, resource, prompt]

# The modes of frameworks, which choose the revision themselves.
MODES = {"session": "", "connection-per-call": ""}


async def run(
    client: str,
    connect: Callable[[str, str], AbstractAsyncContextManager[Peer]],
    modes: dict[str, str] = ERAS,
    checks: list[Callable[[Peer, str], Awaitable[None]]] = CHECKS,
    transports: Sequence[str] = ("http", "stdio"),
) -> None:
    """Runs the checks over each transport in every mode, and prints one line for each."""
    for transport in transports:
        for mode, version in modes.items():
            if transport == "sse" and mode != "legacy":
                continue
            where = f"{client} {transport} {mode}"
            try:
                async with connect(transport, mode) as peer:
                    for check in checks:
                        await report(f"{where} {check.__name__}", check(peer, version))
                    if CONFIG and mode == "auto" and hasattr(peer, "tools_changed"):
                        # Over stdio it would be one of another gateway.
                        async with connect(transport, mode) if transport == "http" else nullcontext(peer) as other:
                            await report(f"{where} added_backend", added_backend(peer, other))
            except Exception as why:
                failed(f"{where} connection", why)


async def report(where: str, check: Awaitable[None]) -> None:
    try:
        await asyncio.wait_for(check, CHECK_TIMEOUT)
    except Exception as why:
        failed(where, why)
    else:
        print(f"ok {where}", flush=True)


def failed(where: str, why: Exception) -> None:
    reason = " ".join(f"{type(why).__name__}: {why}".split())
    print(f"FAILED {where}: {reason[:500]}", flush=True)
