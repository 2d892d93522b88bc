// The TypeScript SDK 2.x: `node v2.mjs URL SERVER`.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { run } from "./checks.mjs";

const [url, server] = process.argv.slice(2);

const MODES = { legacy: "legacy", auto: "auto", "2026-07-28": { pin: "2026-07-28" } };
const ERAS = { legacy: "2025-11-25", auto: "2026-07-28", "2026-07-28": "2026-07-28" };

async function connect(transport, era, listChanged) {
  const wire =
    transport === "http"
      ? new StreamableHTTPClientTransport(new URL(url))
      : new StdioClientTransport({ command: server, args: ["--stdio"], stderr: "ignore" });
  let changed = () => {};
  const client = new Client(
    { name: "matrix", version: "1" },
    {
      versionNegotiation: { mode: MODES[era] },
      listChanged: listChanged ?? { tools: { autoRefresh: false, onChanged: () => changed() } },
    },
  );
  await client.connect(wire);
  return {
    version: () => client.getNegotiatedProtocolVersion(),
    // In every revision: the library replaces the older code by the newest one.
    missing: -32602,
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    resources: async () => (await client.listResources()).resources,
    read: (uri) => client.readResource({ uri }),
    prompts: async () => (await client.listPrompts()).prompts,
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    toolsChanged: () => new Promise((resolve) => (changed = resolve)),
    async close() {
      if (transport === "http" && era === "legacy") await wire.terminateSession();
      await client.close();
    },
  };
}

await run("typescript-2", ERAS, connect);
