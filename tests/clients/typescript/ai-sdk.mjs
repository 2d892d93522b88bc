// The MCP client of Vercel's AI SDK: `node ai-sdk.mjs URL SERVER`.

import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as Stdio } from "@ai-sdk/mcp/mcp-stdio";

import { BASIC, MODES, run } from "./checks.mjs";

const [url, server] = process.argv.slice(2);

async function connect(transport) {
  const client = await createMCPClient({
    transport:
      transport === "http"
        ? { type: "http", url }
        : new Stdio({ command: server, args: ["--stdio"], stderr: "ignore" }),
  });
  return {
    // As a model gets them.
    tools: async () => Object.keys(await client.tools()).map((name) => ({ name })),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

await run("ai-sdk", MODES, connect, BASIC);
