// A web page in headless Chromium that calls the server from another origin: `node browser.mjs URL SERVER`.

import { deepStrictEqual as same, ok } from "node:assert";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

import chromium from "@sparticuz/chromium";
import { build } from "esbuild";

const [server] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));

// Where the package unpacks the browser, once.
process.env.TMPDIR = here;
const program = await chromium.executablePath();
delete process.env.TMPDIR;

const options = { entryPoints: [join(here, "page.mjs")], bundle: true, format: "esm", write: false };
const script = (await build(options)).outputFiles[0].text;

const profiles = mkdtempSync(join(tmpdir(), "browser-"));
let reported;
const pages = createServer(async (request, response) => {
  if (request.method === "POST") reported(await json(request));
  const isScript = request.url === "/page.js";
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html; charset=utf-8");
  response.end(isScript ? script : '<script type="module" src="/page.js"></script>');
});
pages.listen(0, "127.0.0.1");
await once(pages, "listening");
const { port } = pages.address();

/** Opens the page of this host in a browser of its own, and returns what it reports. */
async function visit(host, mode) {
  const report = new Promise((resolve) => (reported = resolve));
  const query = new URLSearchParams([["for", server], ["for", mode]]);
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP foreign.test 127.0.0.1",
    `--user-data-dir=${mkdtempSync(join(profiles, "profile-"))}`,
  ];
  const page = `http://${host}:${port}/?${query}`;
  const child = spawn(program, [...flags, page], { stdio: "ignore", detached: true });
  const late = setTimeout(() => process.kill(-child.pid, "SIGKILL"), 20_000);
  const exit = once(child, "exit");
  try {
    return await Promise.race([report, exit.then((how) => ok(false, `Chromium exited: ${how}`))]);
  } finally {
    clearTimeout(late);
    // Also the processes that it has started.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
    await exit;
  }
}

async function admitted(mode, version) {
  const report = await visit("localhost", mode);
  same([report.error, report.version, report.echo], [undefined, version, "Grüße ✓"]);
  ok(report.tools.includes("echo"));
}

async function foreign(mode) {
  const { error } = await visit("foreign.test", mode);
  ok(/Failed to fetch/.test(error), String(error));
}

for (const [mode, version] of [["legacy", "2025-11-25"], ["auto", "2026-07-28"]]) {
  for (const check of [admitted, foreign]) {
    const where = `browser http ${mode} ${check.name}`;
    try {
      await check(mode, version);
      console.log(`ok ${where}`);
    } catch (error) {
      console.log(`FAILED ${where}: ${String(error).split(/\s+/).join(" ").slice(0, 500)}`);
    }
  }
}
pages.close();
rmSync(profiles, { recursive: true, force: true, maxRetries: 10 });
