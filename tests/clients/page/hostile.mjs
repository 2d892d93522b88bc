// A server over stdio whose texts attack a page that shows them: `node hostile.mjs [COUNT]`. With COUNT it lists that
// many tools. The definition of `turns` is that of the variable TURN.

import { createInterface } from "node:readline";

const count = Number(process.argv[2] ?? 0);
const attack = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const bidi = "safe\u202egnp.exe\u202c \u2066hidden\u2069 \u200b";
// Names that every object of JavaScript has.
const inherited = Object.fromEntries(["constructor", "toString", "__proto__"].map((name) => [name, { type: "string" }]));
const schema = { type: "object", properties: { [attack]: { type: "string", title: attack, description: attack, default: attack }, ...inherited } };
const tools = [
  { name: "attack", title: attack, description: `${attack} ${bidi}`, inputSchema: schema },
  { name: attack, description: bidi, inputSchema: { type: "object", properties: {} } },
  { name: "bidi", title: bidi, description: bidi, inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } },
  { name: "turns", description: `Says ${process.env.TURN ?? "one"}.`, inputSchema: { type: "object", properties: {} } },
  ...Array.from({ length: count }, (_, at) => ({
    name: `tool-${at}`,
    description: `Does the thing number ${at}, and says so in a sentence of some length.`,
    inputSchema: { type: "object", properties: { name: { type: "string" }, limit: { type: "integer", minimum: 1 } } },
  })),
];
process.stderr.write(`${attack} token=hunter2-of-the-child ${bidi}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") {
    const serverInfo = { name: attack, version: bidi };
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") say({ id, result: { tools } });
  else if (method === "tools/call") say({ id, result: { content: [{ type: "text", text: `${attack} ${bidi}` }] } });
  else say({ id, error: { code: -32601, message: attack } });
}).on("close", () => process.exit());
