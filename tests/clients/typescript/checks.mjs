// The checks of the client matrix; prints one line for each.
//
// A peer hides only the names of a library: what the library makes of our answers is checked.

import { deepStrictEqual as same, ok } from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";

const VALUE = { text: "Grüße ✓ \u2028", large: Number.MAX_SAFE_INTEGER, list: [1, 2.5, null, true, {}] };
const TEXT = "This is the content of the static text resource.";
const PNG = "iVBORw0KGgo";
const PROMPT = "Prompt with arguments: arg1='one', arg2='two'";

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

/** Runs every check over both transports in every era, and prints one line for each. */
export async function run(client, eras, connect) {
  for (const transport of ["http", "stdio"]) {
    for (const [era, version] of Object.entries(eras)) {
      const where = `${client} ${transport} ${era}`;
      let peer;
      if (!(await report(`${where} connect`, async () => (peer = await connect(transport, era))))) continue;
      for (const [name, check] of Object.entries(CHECKS)) {
        await report(`${where} ${name}`, () => check(peer, version));
      }
      await report(`${where} close`, () => peer.close());
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
