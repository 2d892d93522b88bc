// The TypeScript SDK 1.x: `node v1.mjs URL SERVER`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { run } from "./checks.mjs";

const [url, server] = process.argv.slice(2);

async function connect(transport) {
  const wires = {
    http: () => new StreamableHTTPClientTransport(new URL(url)),
    stdio: () => new StdioClientTransport({ command: server, args: ["--stdio"], stderr: "ignore" }),
    sse: () => new SSEClientTransport(new URL("/sse", url)),
  };
  const wire = wires[transport]();
  let version;
  // The only way to read the negotiated revision.
  const original = wire.setProtocolVersion?.bind(wire);
  wire.setProtocolVersion = (negotiated) => {
    version = negotiated;
    original?.(negotiated);
  };
  const client = new Client({ name: "matrix", version: "1" });
  await client.connect(wire);
  return {
    version: () => version,
    missing: -32002,
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    resources: async () => (await client.listResources()).resources,
    read: (uri) => client.readResource({ uri }),
    prompts: async () => (await client.listPrompts()).prompts,
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    async close() {
      if (transport === "http") await wire.terminateSession();
      await client.close();
    },
  };
}

await run("typescript-1", { legacy: "2025-11-25" }, connect, undefined, ["http", "stdio", "sse"]);
