#!/usr/bin/env python3
"""Records docs/diagnosis.svg, the moving picture of the README, from a real run: `python3 xtask/picture.py`.

Starts `cargo xtask run-all --only docker` with its local engine, makes two broken containers there, asks the server
about them over HTTP, and writes what was printed and answered as lines that appear one after another."""

import html
import json
import os
import pathlib
import signal
import subprocess
import textwrap
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/diagnosis.svg"
ENGINE = ROOT / "target/backends/run-all/docker/docker.sock"
URL = "http://127.0.0.1:3458/mcp"
COLUMNS, LINE_HEIGHT, MARGIN = 100, 19, 16

# A database that is killed for its memory, and a shop that cannot reach it.
DB = "x=a; while true; do x=$x$x; done"
WEB = "echo 'FATAL: cannot connect to shop-db:5432: connection refused'; sleep 1; exit 1"

# The colours of commands, questions, calls and answers.
STYLES = {"command": "#9ece6a", "question": "#e0af68", "call": "#7aa2f7", "answer": "#c0caf5", "note": "#8990b3"}


def docker(*args):
    unpacked = ROOT / "target/backends/docker/root/usr/bin/docker"
    program = str(unpacked) if unpacked.exists() else "docker"
    env = {**os.environ, "DOCKER_HOST": f"unix://{ENGINE}"}
    return subprocess.run([program, *args], env=env, check=False, capture_output=True, text=True)


def call(tool, arguments):
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "mcp.callTool", "params": params})
    request = urllib.request.Request(URL, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["result"]


def diagnosis(container):
    """The answer of the tool, once the container was killed, or has failed more than once."""
    for _ in range(60):
        found = call("diagnose_container", {"container": container})
        is_once = " 1 restarts" in found["summary"]
        if found["cause"] in ("crash_loop", "oom_killed") and not is_once:
            return found
        time.sleep(1)
    raise SystemExit(f"{container}: {found}")


def record():
    """The lines of the picture: a style, a text, and the seconds before it."""
    lines = [("command", "$ cargo xtask run-all --only docker", 0.5)]
    words = ["cargo", "xtask", "run-all", "--only", "docker"]
    run = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in run.stdout:
            if " answers on " in line:
                lines.append(("note", line.rstrip(), 1.2))
            if "is online after" in line:
                break
        docker("rm", "--force", "shop-db", "shop-web")
        docker("run", "-d", "--name", "shop-db", "--memory", "16m", "busybox:test", "sh", "-c", DB)
        docker("run", "-d", "--name", "shop-web", "--restart", "always", "busybox:test", "sh", "-c", WEB)
        for question, container in [
            ("Why does shop-web restart all the time?", "shop-web"),
            ("Then why does shop-db not run?", "shop-db"),
        ]:
            found = diagnosis(container)
            lines.append(("question", f"> {question}", 1.5))
            lines.append(("call", f'  diagnose_container {{"container": "{container}"}}', 1.0))
            texts = [f'{found["cause"]}: {found["summary"]}', *found["evidence"][:4], *found["next_steps"][:2]]
            for text in texts:
                wrapped = textwrap.wrap(text, COLUMNS - 6, subsequent_indent="  ")
                lines += [("answer", f"    {part}", 0.35) for part in wrapped]
        docker("rm", "--force", "shop-db", "shop-web")
    finally:
        os.killpg(run.pid, signal.SIGINT)
        run.stdout.read()
        run.wait()
    return lines


def picture(lines):
    """An SVG in which each line appears in its turn, and all of them again after a pause."""
    total = sum(seconds for *_, seconds in lines) + 6
    shown, styles, texts = 0.0, [], []
    for at, (style, text, seconds) in enumerate(lines):
        shown += seconds
        start = 100 * shown / total
        styles.append(f"@keyframes l{at}{{0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,99%{{opacity:1}}}}")
        y = MARGIN + LINE_HEIGHT * (at + 1)
        texts.append(
            f'<text x="{MARGIN}" y="{y}" fill="{STYLES[style]}" style="animation-name:l{at}">'
            f"{html.escape(text)}</text>"
        )
    width, height = MARGIN * 2 + COLUMNS * 8, MARGIN * 2 + LINE_HEIGHT * (len(lines) + 1)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
 aria-label="A terminal: docker-mcp-server finds out why a container restarts">
<style>
text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;animation:{total:.1f}s infinite}}
@media (prefers-reduced-motion:reduce){{text{{animation:none}}}}
{chr(10).join(styles)}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#1a1b26"/>
{chr(10).join(texts)}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(picture(record()))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")
