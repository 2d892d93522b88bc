// The checks of the client matrix; prints one line for each.
//
// A peer hides only the names of a library: what the library makes of our answers is checked.

import { deepStrictEqual as same, ok } from "node:assert";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const VALUE = { text: "Grüße ✓ \u2028", large: Number.MAX_SAFE_INTEGER, list: [1, 2.5, null, true, {}] };
const TEXT = "This is the content of the static text resource.";
const PNG = "iVBORw0KGgo";
const PROMPT = "Prompt with arguments: arg1='one', arg2='two'";

// The mode with a new connection for each check.
const PER_CALL = "connection-per-call";

// Timeout of each check, in milliseconds.
const CHECK_TIMEOUT = 20_000;

const has = (many, one) => ok(many.includes(one), `no ${one} in ${many}`);

async function refused(work, code) {
  const outcome = await work.catch((error) => error);
  ok(outcome instanceof Error, `${JSON.stringify(outcome)} instead of error ${code}`);
  same(outcome.code, code);
}

const running = async (peer) => (await peer.call("count_slow", {})).structuredContent.running;

const CHECKS = {
  async negotiate(peer, version) {
    same(peer.version(), version);
  },

  async list_tools(peer) {
    const tools = (await peer.tools()).map((tool) => tool.name);
    for (const name of ["echo", "slow", "fail"]) has(tools, name);
    same(new Set(tools).size, tools.length);
  },

  async call(peer) {
    const result = await peer.call("echo", { value: VALUE });
    ok(!result.isError);
    same(result.structuredContent, { value: VALUE });
  },

  async error(peer) {
    const result = await peer.call("fail", {});
    same([result.isError, result.content[0].text], [true, "The service failed; try again later."]);
    await refused(peer.call("no_such_tool", {}), -32602);
  },

  async progress(peer) {
    const seen = [];
    const onprogress = ({ progress, total, message }) => seen.push([progress, total, message]);
    const result = await peer.call("slow", { step: 100, steps: 5 }, { onprogress });
    same(result.structuredContent, { done: 5 });
    // The last steps may be missing: the library drops notifications that it reads together with the result.
    const steps = [1, 2, 3, 4, 5].map((done) => [done, 5, `step ${done} of 5`]);
    same(seen, steps.slice(0, Math.max(seen.length, 1)));
  },

  async cancel(peer) {
    const stop = new AbortController();
    let slow;
    await new Promise((begun) => {
      const options = { onprogress: begun, signal: stop.signal };
      slow = peer.call("slow", { step: 100, steps: 300 }, options).catch((error) => error);
    });
    same(await running(peer), 1);
    stop.abort();
    ok((await slow) instanceof Error);
    // The server is notified a moment later; the connection stays open.
    for (const until = Date.now() + 5000; (await running(peer)) && Date.now() < until; ) await sleep(20);
    same(await running(peer), 0);
  },

  async resource(peer) {
    has((await peer.resources()).map((resource) => resource.uri), "test://static-text");
    const read = async (uri) => (await peer.read(uri)).contents[0];
    same((await read("test://static-text")).text, TEXT);
    has((await read("test://static-binary")).blob, PNG);
    has((await read("test://template/42/data")).text, '"id":"42"');
    await refused(peer.read("test://nothing"), peer.missing);
  },

  async prompt(peer) {
    has((await peer.prompts()).map((prompt) => prompt.name), "test_prompt_with_arguments");
    const { messages } = await peer.prompt("test_prompt_with_arguments", { arg1: "one", arg2: "two" });
    same(messages.map((message) => message.content.text), [PROMPT]);
    await refused(peer.prompt("no_such_prompt", {}), -32602);
  },
};

/** The configuration file of the gateway, if the server is one. */
const CONFIG = process.env.MCP_GATEWAY_CONFIG;

/**
 * A backend that is added to the gateway is listed within a second of the notification, also for a
 * client that is not notified and has listed the tools before.
 */
async function addedBackend(peer, other) {
  const before = readFileSync(CONFIG, "utf8");
  const added = before.replace("bare = true", "").replace("[backends.fixture]", "[backends.added]");
  await other.tools();
  try {
    for (const [config, listed] of [[before + added, true], [before, false]]) {
      const changed = peer.toolsChanged();
      writeFileSync(CONFIG, config);
      await changed;
      const isListed = async () => (await other.tools()).some((tool) => tool.name === "added__echo");
      for (const until = Date.now() + 1000; (await isListed()) !== listed; ) {
        ok(Date.now() < until, `listed: ${!listed}, a second after the notification`);
      }
    }
  } finally {
    writeFileSync(CONFIG, before);
  }
}

const { list_tools, call, error } = CHECKS;
export const BASIC = { list_tools, call, error };

/** The modes of frameworks, which choose the revision themselves. */
export const MODES = { session: "", [PER_CALL]: "" };

/** Runs the checks over the transports in every mode, and prints one line for each. */
export async function run(client, modes, connect, checks = CHECKS, transports = ["http", "stdio"]) {
  for (const transport of transports) {
    for (const [mode, version] of Object.entries(modes)) {
      const where = `${client} ${transport} ${mode}`;
      let peer;
      const open = () => report(`${where} connect`, async () => (peer = await connect(transport, mode)));
      const close = () => report(`${where} close`, () => peer.close());
      if (!(await open())) continue;
      for (const [name, check] of Object.entries(checks)) {
        await report(`${where} ${name}`, () => check(peer, version));
        if (mode === PER_CALL && !((await close()) && (await open()))) break;
      }
      if (CONFIG && mode === "auto" && peer.toolsChanged) {
        // Over stdio it would be one of another gateway.
        const other = transport === "http" ? await connect(transport, mode, {}) : peer;
        await report(`${where} added_backend`, () => addedBackend(peer, other));
        if (other !== peer) await other.close();
      }
      await close();
    }
  }
}

async function report(where, check) {
  const late = new AbortController();
  const limit = sleep(CHECK_TIMEOUT, null, { signal: late.signal }).then(() => {
    throw new Error(`not done in ${CHECK_TIMEOUT} ms`);
  });
  try {
    await Promise.race([check(), limit]);
    console.log(`ok ${where}`);
    return true;
  } catch (error) {
    console.log(`FAILED ${where}: ${String(error).split(/\s+/).join(" ").slice(0, 500)}`);
    return false;
  } finally {
    limit.catch(() => {});
    late.abort();
  }
}
