"""A real collector, rotel, and behind it a receiver that decodes what it passes on."""

import gzip
import os
import signal
import socket
import subprocess
import sysconfig
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROTEL = os.path.join(sysconfig.get_paths()["platlib"], "rotel", "rotel-agent")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def eventually(what: str, found: Any, seconds: float = 30.0) -> Any:
    """Waits for a value."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := found():
            return value
        time.sleep(0.05)
    raise TimeoutError(what)


def is_up(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def attributes(values: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in values}


class Collector:
    """rotel on a port, and what has arrived behind it."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.bytes = b""
        self.port = free_port()
        receiver = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.receiver = receiver.server_address[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = {
            "otlp-http-endpoint": f"127.0.0.1:{self.port}",
            "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
            "exporter": "otlp",
            "otlp-exporter-endpoint": f"http://127.0.0.1:{self.receiver}",
            "otlp-exporter-protocol": "http",
            "otlp-exporter-compression": "none",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        # Its program is linked to the library of this Python.
        env = os.environ | {"LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR"))}
        command = [ROTEL, "start", "--disable-batching", *words]
        self.rotel = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        eventually("rotel", lambda: is_up(self.port))

    def stop(self) -> None:
        self.rotel.send_signal(signal.SIGTERM)
        self.rotel.wait()

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]

    def add_traces(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = attributes(resource.resource.attributes)
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self.spans.append(
                    {
                        "resource": about,
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "name": span.name,
                        "state": span.trace_state,
                        "start": span.start_time_unix_nano,
                        "failed": span.status.code == 2,
                        **attributes(span.attributes),
                    }
                )

    def handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.bytes += body
                assert self.path == "/v1/traces"
                collector.add_traces(body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
