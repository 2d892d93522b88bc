"""Traces in a real collector: `python otel.py URL SERVER`. It starts SERVER and the gateway of the same
folder itself."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from collector import Collector, eventually, free_port, is_up

SERVER = Path(sys.argv[2])
GATEWAY = SERVER.parent / "mcp-gateway"
FOLDER = Path(tempfile.mkdtemp(prefix="otel-"))
CANARY = "canary-5d1f"
TOKEN = f"{CANARY}-token-of-32-characters"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLS = 2_000
AWAY = 200
children: list[subprocess.Popen[bytes]] = []


def check(name: str, found: Any, expected: Any) -> None:
    is_same = found == expected
    print(f"ok otel {name}" if is_same else f"FAILED otel {name}: {found!r} instead of {expected!r}", flush=True)


def start(program: Path, name: str, collector: str, *args: str, **more: str) -> tuple[str, Path]:
    """Starts a program, which exports to the collector; returns its URL and the file of its log."""
    port, log = free_port(), FOLDER / f"{name}.log"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(FOLDER),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{CANARY}-header",
        "OTEL_SERVICE_NAME": name,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "MCP_LOG": "debug",
        **more,
    }
    with log.open("wb") as output:
        command = [program, "--port", str(port), *args]
        children.append(subprocess.Popen(command, env=env, stdout=output, stderr=output))
    eventually(name, lambda: is_up(port))
    return f"http://127.0.0.1:{port}/mcp", log


def post(url: str, message: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()
    always = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(url, body, always | (headers or {}))
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())


def call(url: str, tool: str, arguments: dict[str, Any], headers: dict[str, str] | None = None, **meta: str) -> Any:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if meta:
        params["_meta"] = meta
    return post(url, {"method": "tools/call", "params": params}, headers)


def traceparent(trace: str, flags: str = "01") -> str:
    return f"00-{trace}-{PARENT}-{flags}"


def one_trace(collector: Collector, url: str) -> None:
    """The members of spans beside their services, kinds, parents and names, which tests/src/gateway/real/traces.rs has."""
    headers = {"traceparent": traceparent(TRACE), "tracestate": "vendor=1", "baggage": f"team={CANARY}-baggage"}
    call(url, "fixture__echo", {"value": f"{CANARY}-argument"}, headers)
    spans = eventually("the trace", lambda: (found := in_trace(collector, TRACE)) and len(found) == 3 and found)
    served, sent, answered = spans
    check("state", [span["state"] for span in spans], ["vendor=1"] * 3)
    for name, value in {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "network.transport": "tcp",
        "failed": False,
    }.items():
        check(name, [span[name] for span in spans], [value] * 3)
    check("address", sent["server.address"], "127.0.0.1")
    check("order", served["start"] <= sent["start"] <= answered["start"], True)
    check("version", "service.version" in served["resource"], True)


def in_trace(collector: Collector, trace: str) -> list[dict[str, Any]]:
    found = [span for span in collector.spans if span["trace"] == trace]
    return sorted(found, key=lambda span: span["start"])


def other_ways(collector: Collector, url: str, server: str) -> None:
    in_meta, unsampled = TRACE.replace("4b", "5b", 1), TRACE.replace("4b", "6b", 1)
    call(url, "fixture__echo", {"value": 1}, None, traceparent=traceparent(in_meta), baggage=f"team={CANARY}-meta")
    call(url, "fixture__echo", {"value": 1}, {"traceparent": traceparent(unsampled, "00")})
    call(url, f"{CANARY}-tool", {})
    call(url, "fixture__echo", {"value": {}}, {"traceparent": "00-zz-evil-01"})
    post(url, {"method": f"{CANARY}-method"})
    post(server, {"method": "resources/read", "params": {"uri": f"test://{CANARY}-uri"}})
    unknown = eventually("the unknown tool", lambda: [span for span in collector.named("tools/call") if span["failed"]])
    check("unknown tool", [span["error.type"] for span in unknown], ["-32602"])
    check("status code", unknown[0]["rpc.response.status_code"], "-32602")
    eventually("the unknown method", lambda: collector.named("_OTHER"))
    eventually("the resource", lambda: collector.named("resources/read"))
    eventually("the trace in _meta", lambda: len(in_trace(collector, in_meta)) == 3)
    check("parent in _meta", in_trace(collector, in_meta)[0]["parent"], PARENT)
    check("unsampled", in_trace(collector, unsampled), [])


def echoes(collector: Collector) -> int:
    """The spans of calls. The gateway sends requests of its own to the server, too."""
    return sum(span["name"].endswith("echo") for span in collector.spans)


def none_lost(collector: Collector, url: str) -> None:
    before = echoes(collector)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: call(url, "fixture__echo", {"value": n}), range(CALLS)))
    eventually("all spans", lambda: echoes(collector) - before >= 3 * CALLS)
    check("spans", echoes(collector) - before, 3 * CALLS)
    check("ids", len({span["id"] for span in collector.spans}), len(collector.spans))


def collector_is_away(collector: Collector, url: str, log: Path) -> None:
    before = echoes(collector)
    collector.stop()
    for n in range(AWAY):
        call(url, "fixture__echo", {"value": n})
    told = "cannot export to"
    eventually("the warning", lambda: told in log.read_text())
    collector.start()
    eventually("spans again", lambda: echoes(collector) >= before + 3 * AWAY)
    check("spans again", echoes(collector), before + 3 * AWAY)
    eventually("the end", lambda: log.read_text().count("accepts the export again") == log.read_text().count(told))
    check("warnings", log.read_text().count(told), 1)


def main() -> None:
    collector = Collector()
    try:
        server, server_log = start(SERVER, "server", collector.url)
        config = FOLDER / "gateway.toml"
        config.write_text(f'[backends.fixture]\nurl = "{server}"\n')
        tokens = FOLDER / "tokens"
        tokens.write_text(f"{CANARY}-principal {TOKEN}\n")
        tokens.chmod(0o600)
        more = ["--config", str(config), "--events", "memory", "--token-file", str(tokens)]
        url, log = start(GATEWAY, "gateway", collector.url, *more)
        one_trace(collector, url)
        other_ways(collector, url, server)
        none_lost(collector, url)
        collector_is_away(collector, url, log)
        check("canaries", CANARY.encode() in collector.bytes, False)
        check("logs", [CANARY + "-header" in path.read_text() for path in (log, server_log)], [False, False])
        last = echoes(collector)
        call(url, "fixture__echo", {"value": 1})
        for child in reversed(children):
            child.terminate()
            child.wait()
        eventually("the last spans", lambda: echoes(collector) >= last + 3)
        check("last spans", echoes(collector), last + 3)
    finally:
        for child in children:
            child.kill()
        collector.stop()


main()
