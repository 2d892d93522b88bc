// mcp-remote, which connects a host's stdio to a server over HTTP: `node remote.mjs URL SERVER`.

import { deepStrictEqual as same, ok } from "node:assert";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { BASIC, MODES, run } from "./checks.mjs";

const [url, server] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const bridge = join(here, "node_modules/mcp-remote/dist/proxy.js");

async function connect() {
  const wire = new StdioClientTransport({
    command: process.execPath,
    args: [bridge, url],
    env: { MCP_REMOTE_CONFIG_DIR: join(here, "mcp-remote") },
    stderr: "ignore",
  });
  const client = new Client({ name: "matrix", version: "1" });
  await client.connect(wire);
  return {
    tools: async () => (await client.listTools()).tools,
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

/** The checks of a server whose service is not running. */
const WITHOUT_SERVICE = {
  async list_tools(peer) {
    ok((await peer.tools()).length > 0);
  },

  async error(peer) {
    const reads = ({ annotations, inputSchema }) => annotations.readOnlyHint && !inputSchema.required?.length;
    const { name } = (await peer.tools()).find(reads);
    const { isError, content } = await peer.call(name, {});
    same([isError, content[0].type], [true, "text"]);
    await peer.call("no_such_tool", {}).then(
      () => ok(false, "an unknown tool was called"),
      (error) => same(error.code, -32602),
    );
  },
};

const isOwn = /-mcp-server$/.test(server);
await run("mcp-remote", MODES, connect, isOwn ? WITHOUT_SERVICE : BASIC, ["stdio"]);
