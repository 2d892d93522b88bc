// The echo tool on the TypeScript SDK 1.x, for `cargo xtask bench`: without sessions, with JSON replies
// and without Express: its fastest configuration.

import { createServer } from "node:http";

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const http = createServer(async (request, response) => {
  // Without sessions the SDK needs a server for each request.
  const server = new Server({ name: "bench", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({
    content: [{ type: "text", text: params.arguments.value }],
    isError: false,
  }));
  const options = { sessionIdGenerator: undefined, enableJsonResponse: true };
  const transport = new StreamableHTTPServerTransport(options);
  await server.connect(transport);
  await transport.handleRequest(request, response);
});

http.listen(0, "127.0.0.1", () => {
  console.error(`bench-typescript listens on http://127.0.0.1:${http.address().port}/mcp`);
});
