// A web page that uses the TypeScript SDK; reports to the program that serves it.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [server, mode] = new URLSearchParams(location.search).getAll("for");

async function visit() {
  const client = new Client({ name: "page", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(server)));
  const { tools } = await client.listTools();
  const result = await client.callTool({ name: "echo", arguments: { value: "Grüße ✓" } });
  const version = client.getNegotiatedProtocolVersion();
  await client.close();
  return { version, tools: tools.map((tool) => tool.name), echo: result.structuredContent.value };
}

const report = await visit().catch((error) => ({ error: String(error) }));
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
