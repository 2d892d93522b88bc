// The command line of the MCP Inspector: `node matrix.mjs URL SERVER`.
//
// Each step is a separate process that connects, sends one request and prints its result as JSON.

import { deepStrictEqual as same, ok } from "node:assert";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const [url, server] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const home = mkdtempSync(join(tmpdir(), "inspector-"));

const PACKAGE = "@modelcontextprotocol/inspector/package.json";
const manifest = createRequire(import.meta.url).resolve(PACKAGE);
const program = join(dirname(manifest), JSON.parse(readFileSync(manifest)).bin["mcp-inspector"]);

const VALUE = { text: "Grüße ✓", large: Number.MAX_SAFE_INTEGER, list: [1, 2.5, null, true, {}] };
// Node.js takes 2 s to start, and beside other tests ten times as long.
const STEP_TIMEOUT = 90_000;
const INFO = "io.modelcontextprotocol/serverInfo";

/** Starts one step. */
function start(at, method, options = [], target = at.target) {
  const args = ["--cli", "--protocol-era", at.era, "--format", "json", "-q", "--method", method];
  return spawn(process.execPath, [program, ...args, ...options, ...target], {
    stdio: ["ignore", "pipe", "pipe"],
    // Its files stay in this directory.
    env: { ...process.env, HOME: home, MCP_CATALOG_PATH: join(home, "catalog.json") },
    timeout: STEP_TIMEOUT,
  });
}

/** Runs one step; returns its exit code and its output. */
function step(...args) {
  const child = start(...args);
  const printed = { out: "", err: "" };
  child.stdout.on("data", (text) => (printed.out += text));
  child.stderr.on("data", (text) => (printed.err += text));
  return new Promise((done, failed) => {
    child.on("error", failed);
    // A step that took too long has a signal instead of a code.
    child.on("close", (code, signal) => done({ code: code ?? signal, ...printed }));
  });
}

/** Runs one step that must succeed. */
async function result(...args) {
  const { code, out, err } = await step(...args);
  same([code, err], [0, ""]);
  return JSON.parse(out).result;
}

const tool = (name, args) => ["--tool-name", name, "--tool-args-json", JSON.stringify(args)];
const call = (at, name, args) => result(at, "tools/call", tool(name, args));

const CHECKS = {
  async list_tools(at) {
    // Warnings are expected for `echo` of the fixture, which accepts any value.
    const { code, out, err } = await step(at, "tools/list", ["--strict"]);
    ok(code === 0, `${code} ${err}`);
    const names = JSON.parse(out).result.tools.map((tool) => tool.name);
    for (const name of ["echo", "slow", "fail"]) ok(names.includes(name), name);
  },

  async call(at) {
    const { structuredContent, isError, _meta } = await call(at, "echo", { value: VALUE });
    same([structuredContent, isError], [{ value: VALUE }, false]);
    // Only the modern revision sends the server info with every result.
    same(_meta?.[INFO]?.name, at.era === "legacy" ? undefined : "mcp-conformance");
  },

  async error(at) {
    const failed = await step(at, "tools/call", tool("fail", {}));
    same([failed.code, JSON.parse(failed.err).error.code], [5, "tool_is_error"]);
    same(JSON.parse(failed.out).result.content[0].text, "The service failed; try again later.");
    const unknown = await step(at, "tools/call", tool("no_such_tool", {}));
    same([unknown.code, JSON.parse(unknown.err).error.code], [5, "tool_not_found"]);
  },

  async progress(at) {
    // The Inspector requests progress, but does not show it.
    same((await call(at, "slow", { step: 5, steps: 5 })).structuredContent, { done: 5 });
  },

  async cancel(at) {
    await (at.transport === "http" ? interruptHttp(at) : interruptStdio(at));
  },

  async resource(at) {
    const { resources } = await result(at, "resources/list");
    ok(resources.some((resource) => resource.uri === "test://static-text"));
    const { contents } = await result(at, "resources/read", ["--uri", "test://static-text"]);
    same(contents[0].text, "This is the content of the static text resource.");
    const missing = await step(at, "resources/read", ["--uri", "test://nothing"]);
    same(JSON.parse(missing.err).error.message, "Resource not found: test://nothing");
  },

  async prompt(at) {
    const name = "test_prompt_with_arguments";
    const { prompts } = await result(at, "prompts/list");
    ok(prompts.some((prompt) => prompt.name === name));
    const options = ["--prompt-name", name, "--prompt-args", "arg1=one", "arg2=two", "--"];
    const { messages } = await result(at, "prompts/get", options);
    same(messages[0].content.text, "Prompt with arguments: arg1='one', arg2='two'");
  },
};

/** Ctrl-C during a call: the call is cancelled, the server continues. */
async function interruptHttp(at) {
  // Except in the legacy era, where a closed connection does not cancel: there the call finishes.
  const steps = at.era === "legacy" ? 20 : 300;
  const child = start(at, "tools/call", tool("slow", { step: 100, steps }));
  await until(async () => (await running()) === 1);
  child.kill("SIGINT");
  await until(async () => (await running()) === 0);
}

/** Ctrl-C during a call: the server that it started exits. */
async function interruptStdio(at) {
  const received = join(home, `received-${at.era}`);
  const watched = ["sh", join(here, "watched.sh"), received, server];
  const child = start(at, "tools/call", tool("slow", { step: 100, steps: 300 }), watched);
  await until(() => existsSync(received) && readFileSync(received, "utf8").includes("tools/call"));
  child.kill("SIGINT");
  await until(() => existsSync(`${received}.ended`));
}

/** The number of slow calls that run on the HTTP server, requested without the Inspector. */
async function running() {
  const params = { name: "count_slow", arguments: {} };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const headers = { "content-type": "application/json" };
  const answer = await (await fetch(url, { method: "POST", headers, body })).json();
  return JSON.parse(answer.result.content[0].text).running;
}

async function until(holds) {
  for (const end = Date.now() + STEP_TIMEOUT; !(await holds()); await sleep(20)) {
    ok(Date.now() < end, "not in time");
  }
}

async function run(transport, target) {
  for (const era of ["legacy", "auto", "modern"]) {
    for (const [name, check] of Object.entries(CHECKS)) {
      const where = `inspector ${transport} ${era} ${name}`;
      try {
        await check({ transport, target, era });
        console.log(`ok ${where}`);
      } catch (error) {
        console.log(`FAILED ${where}: ${String(error).split(/\s+/).join(" ").slice(0, 500)}`);
      }
    }
  }
}

try {
  // In parallel: most of the time is the start of Node.js.
  await Promise.all([run("http", [url]), run("stdio", [server, "--stdio"])]);
} finally {
  rmSync(home, { recursive: true, force: true, maxRetries: 10 });
}
