// The gateway with real issuers: `node gateway.mjs URL SERVER`. It starts SERVER, which is protected, and the gateway
// of the same folder: as the OAuth client of SERVER, and protected itself, with roles by the claims of its callers.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as send } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { OAuth2Server } from "oauth2-mock-server";

import { check, children, freePort, isUp, logIn, startProvider } from "./issuers.mjs";

const SERVER = process.argv[3];
const GATEWAY = join(dirname(SERVER), "mcp-gateway");
const folder = mkdtempSync(join(tmpdir(), "gateway-oauth-"));
const REVISION = "2026-07-28";

/** Runs a program, whose output is kept. */
function run(program, args, name) {
  const env = { PATH: process.env.PATH, HOME: folder, XDG_STATE_HOME: join(folder, "state"), MCP_LOG: "trace" };
  const child = spawn(program, args.map(String), { env, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  child.text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (child.text += data));
  child.ended = new Promise((resolve) => child.on("exit", resolve));
  child.called = name;
  return child;
}

async function server(port, ...args) {
  const child = run(SERVER, ["--port", port, ...args], "server");
  await isUp(port);
  return child;
}

/** Starts a gateway with this configuration. */
async function gateway(config, ...args) {
  const [port, file] = [await freePort(), join(folder, "gateway.toml")];
  writeFileSync(file, config);
  const child = run(GATEWAY, ["--port", port, "--config", file, ...args], "gateway");
  await isUp(port);
  return { child, url: `http://127.0.0.1:${port}/mcp`, file };
}

/** Sends a message; of a stream the first bytes count. */
async function post(url, body, headers = {}, method = "POST") {
  const both = "application/json, text/event-stream";
  const all = { "content-type": "application/json", accept: both, ...headers };
  const reply = await fetch(url, { method, headers: all, body: body && JSON.stringify(body) });
  const text = await reply.text();
  const data = text.startsWith("{") ? text : /^data: (\{.*)$/m.exec(text)?.[1];
  return { status: reply.status, headers: reply.headers, text, answer: data && JSON.parse(data) };
}

/** The forms of a request in the eras: headers and a message. */
const ERAS = {
  unversioned: (method, params) => [{}, { method, params }],
  "2025-11-25": (method, params) => [{ "mcp-protocol-version": "2025-11-25" }, { method, params }],
  [REVISION]: (method, params) => {
    const headers = { "mcp-protocol-version": REVISION, "mcp-method": method };
    if (params.name ?? params.uri) headers["mcp-name"] = params.name ?? params.uri;
    const names = ["protocolVersion", "clientCapabilities"].map((name) => `io.modelcontextprotocol/${name}`);
    return [headers, { method, params: { ...params, _meta: { [names[0]]: REVISION, [names[1]]: {} } } }];
  },
};

async function ask(url, era, method, params = {}, token = undefined) {
  const [headers, message] = ERAS[era](method, params);
  if (token) headers.authorization = `Bearer ${token}`;
  return await post(url, { jsonrpc: "2.0", id: 1, ...message }, headers);
}

async function callTool(url, name, args = {}, token = undefined, era = "unversioned") {
  const reply = await ask(url, era, "tools/call", { name, arguments: args }, token);
  return reply.answer?.result?.content?.[0]?.text ?? JSON.stringify(reply.answer?.error ?? reply.status);
}

async function eventually(what, found, seconds = 20) {
  for (let tries = 0; tries < seconds * 10; tries++) {
    if (await found()) return true;
    await sleep(100);
  }
  return `${what}: not within ${seconds} s`;
}

/** All that is in the files of a folder. */
function contents(path) {
  const entries = existsSync(path) ? readdirSync(path, { withFileTypes: true, recursive: true }) : [];
  const files = entries.filter((entry) => entry.isFile());
  return files.map((file) => readFileSync(join(file.parentPath ?? file.path, file.name), "latin1")).join("\n");
}

/** A token, and its parts that are secret or name its owner. */
function traces(token) {
  const [, claims, signature] = token.split(".");
  return signature ? [claims, signature] : [token];
}

function shows(text, tokens) {
  return tokens.filter((token) => traces(token).some((part) => text.includes(part))).length;
}

// As the client of a protected server.
async function asClient() {
  const LIFETIME = 6;
  const { issuer, given, stop } = await startProvider(LIFETIME);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const guard = ["--auth-issuer", issuer, "--auth-resource", url, "--auth-scopes", "tools:read"];
  const guarded = await server(port, ...guard);
  const machine = `client_id = "machine"\nclient_secret = "machine-secret"\nissuer = "${issuer}"`;
  const config = `[backends.machine]
url = "${url}"
[backends.machine.oauth]
grant = "client_credentials"
${machine}
[backends.person]
url = "${url}"
[backends.person.oauth]
grant = "login"
`;
  const events = ["--events", join(folder, "events.db")];
  let gate = await gateway(config, ...events);
  const greets = async (backend) => (await callTool(gate.url, `${backend}__greet`, { name: "Ada" })) === "Hello, Ada!";
  check("a machine logs in through the gateway", await eventually("the machine", () => greets("machine")), true);
  const status = await eventually("the hint", async () =>
    (await callTool(gate.url, "gateway_status")).includes("mcp-gateway login person"),
  );
  check("the status says how to log in", status, true);

  const login = run(GATEWAY, ["login", "person", "--no-browser", "--config", gate.file], "login");
  await eventually("the page", () => /^http/m.test(login.text));
  const page = new URL(/^http\S+/m.exec(login.text)[0]);
  const asked = ["code_challenge_method", "resource"].map((name) => page.searchParams.get(name));
  check("the login has PKCE and the resource", asked, ["S256", url]);
  const state = new URL(page.searchParams.get("redirect_uri"));
  state.search = "?code=x&state=wrong";
  check("an answer with another state", (await fetch(state)).status, 404);
  const back = await fetch(await logIn(page.href));
  check("the page after the login", [back.status, await login.ended], [200, 0]);
  check("a person logs in", await eventually("the person", () => greets("person")), true);

  // Longer than two tokens live.
  const before = given.length;
  let failed = 0;
  for (const end = Date.now() + 2.2 * LIFETIME * 1000; Date.now() < end; await sleep(250)) {
    for (const backend of ["machine", "person"]) failed += (await greets(backend)) ? 0 : 1;
  }
  check("calls that failed while tokens were renewed", failed, 0);
  for (const grant of ["client_credentials", "refresh_token"]) {
    const times = given.slice(before).filter((token) => token.grant === grant).map((token) => token.at);
    const gaps = times.slice(1).map((time, index) => (time - times[index]) / 1000);
    const inTime = gaps.length >= 2 && gaps.every((gap) => gap > 1 && gap < LIFETIME);
    check(`each token by ${grant} is renewed once, before its end`, inTime || gaps, true);
  }

  gate.child.kill("SIGKILL");
  await gate.child.ended;
  const logs = gate.child.text;
  gate = await gateway(config, ...events);
  check("the login after a restart", await eventually("the person", () => greets("person")), true);

  const tokens = given.flatMap((token) => [token.access_token, token.refresh_token]).filter(Boolean);
  const exported = run(GATEWAY, ["events", "--json", "--all", "--config", gate.file, ...events], "events");
  await exported.ended;
  check("the events are exported", exported.text.includes("person__greet"), true);
  const secrets = [...tokens, "machine-secret"];
  check("tokens in events", shows(exported.text, secrets), 0);
  check("tokens in logs", shows(logs + gate.child.text + login.text + guarded.text, secrets), 0);
  check("tokens in files", shows(contents(join(folder, "state")) + contents(folder).replace(config, ""), secrets), 0);

  stop();
  gate.child.kill();
  await gate.child.ended;
  guarded.kill();
}

/** A copy of all that a server gets, in front of it. */
async function recorder(target) {
  const port = await freePort();
  const seen = { text: "" };
  const proxy = createServer((incoming, outgoing) => {
    seen.text += `${incoming.method} ${incoming.url} ${JSON.stringify(incoming.rawHeaders)}\n`;
    incoming.on("data", (data) => (seen.text += data));
    const { host, ...headers } = incoming.headers;
    const options = { host: "127.0.0.1", port: target, method: incoming.method, path: incoming.url };
    const on = send({ ...options, headers: { ...headers, host: `127.0.0.1:${port}` } }, (reply) => {
      outgoing.writeHead(reply.statusCode, reply.headers);
      reply.pipe(outgoing);
    });
    on.on("error", () => outgoing.destroy());
    incoming.pipe(on);
  });
  proxy.listen(port, "127.0.0.1");
  return { port, seen, stop: () => proxy.close() };
}

async function mockIssuer() {
  const mock = new OAuth2Server();
  const key = await mock.issuer.keys.generate("RS256");
  await mock.start(0, "127.0.0.1");
  const token = (claims) =>
    mock.issuer.buildToken({
      kid: key.kid,
      scopesOrTransform: (header, payload) => {
        header.typ = "at+jwt";
        Object.assign(payload, { exp: Math.floor(Date.now() / 1000) + 600, ...claims });
      },
    });
  return { name: mock.issuer.url, token, stop: () => mock.stop() };
}

const ROLES = `
[roles.reader]
allow = ["b__greet", "b__test_simple_text", "test://static-text"]
[roles.oncall]
inherits = ["reader"]
allow = ["b__*", "o__greet", "p__greet"]
deny = ["b__test_error_handling"]
[roles.operator]
allow = ["*"]
own = ["gateway_status", "gateway_restart", "events:all"]
[principals]
"sub:root" = "operator"
"group:ops" = "oncall"
"scope:tools:read" = "reader"
`;

// Protected itself, with roles by claims.
async function withRoles() {
  const { issuer, given, stop } = await startProvider();
  const [one, two] = [await mockIssuer(), await mockIssuer()];
  // Three backends that write down what they get: one with OAuth, one without, one over stdio.
  const [guarded, plain] = [await freePort(), await freePort()];
  const [ahead, beside] = [await recorder(guarded), await recorder(plain)];
  const resource = `http://127.0.0.1:${ahead.port}/mcp`;
  await server(guarded, "--auth-issuer", issuer, "--auth-resource", resource, "--allowed-hosts", "127.0.0.1");
  await server(plain);
  const script = join(folder, "backend.sh");
  writeFileSync(script, `env > '${folder}/b.env'\ntee '${folder}/b.log' | exec '${SERVER}' --stdio --log trace 2> '${folder}/b.err'\n`);
  const backends = `[backends.b]
command = ["sh", "${script}"]
[backends.o]
url = "${resource}"
# All three backends have the same resources: they are those of b.
deny = ["test://*"]
[backends.o.oauth]
grant = "client_credentials"
client_id = "machine"
client_secret = "machine-secret"
issuer = "${issuer}"
[backends.p]
url = "http://127.0.0.1:${beside.port}/mcp"
deny = ["test://*"]
`;
  const port = await freePort();
  const own = `http://127.0.0.1:${port}/mcp`;
  const trust = (...issuers) => ["--port", port, "--auth-issuer", issuers, "--auth-resource", own];
  const events = ["--events", join(folder, "roles.db")];
  const start = async (...args) => {
    const file = join(folder, "roles.toml");
    writeFileSync(file, backends + ROLES);
    const child = run(GATEWAY, ["--config", file, ...events, ...args], "gateway");
    await isUp(port);
    return child;
  };
  let gate = await start(...trust(one.name), "--auth-scopes", "mcp");
  const token = (claims, of = one) => of.token({ sub: "somebody", aud: own, scope: "mcp", ...claims });
  const tokens = {
    operator: await token({ sub: "root" }),
    oncall: await token({ groups: ["dev", "ops"] }),
    reader: await token({ scope: "mcp tools:read" }),
    nobody: await token({ sub: "group:ops2", groups: ["Ops", "ops "], scope: "mcp tools:reader" }),
  };
  const names = async (token, era) => {
    const { answer } = await ask(own, era, "tools/list", {}, token);
    return (answer?.result?.tools ?? []).map((tool) => tool.name);
  };
  const all = await eventually("all backends", async () => {
    const found = (await names(tokens.operator, "unversioned")).map((name) => name.slice(0, 3));
    return ["b__", "o__", "p__"].every((key) => found.includes(key));
  });
  check("the operator sees all backends", all, true);
  const everything = (await names(tokens.operator, "unversioned")).sort();
  const reads = ["b__greet", "b__test_simple_text"];
  const may = {
    operator: () => true,
    oncall: (name) => (name.startsWith("b__") && name !== "b__test_error_handling") || ["o__greet", "p__greet"].includes(name),
    reader: (name) => reads.includes(name),
    nobody: () => false,
  };
  const own_tools = ["get_events", "gateway_status", "gateway_restart", "search_tools", "call_tool"];
  const shape = (answer, name) => JSON.stringify([answer?.error?.code, answer?.error?.message]).replaceAll(name, "NAME");
  for (const [who, token] of Object.entries(tokens)) {
    for (const era of Object.keys(ERAS)) {
      const listed = (await names(token, era)).filter((name) => !own_tools.includes(name)).sort();
      const expected = everything.filter((name) => !own_tools.includes(name) && may[who](name));
      check(`the tools of ${who} in ${era}`, listed, expected);
      const call = async (name) => (await ask(own, era, "tools/call", { name, arguments: { name: "Ada" } }, token)).answer;
      const unknown = shape(await call("b__none"), "b__none");
      const wrong = [];
      for (const name of ["b__greet", "o__greet", "p__greet", "b__test_simple_text", "b__test_error_handling"]) {
        const answer = await call(name);
        const isUnknown = Boolean(answer?.error) && shape(answer, name) === unknown;
        if (isUnknown === may[who](name)) wrong.push([name, answer]);
      }
      check(`calls of ${who} in ${era}`, wrong, []);
      const read = (await ask(own, era, "resources/read", { uri: "test://static-text" }, token)).answer;
      check(`the resource for ${who} in ${era}`, Boolean(read?.result), who === "operator" || who === "reader" || who === "oncall");
    }
  }

  // 403 before a stream begins, and before the message is read.
  const weak = await token({ sub: "root", scope: "other" });
  const stream = { accept: "text/event-stream", "mcp-protocol-version": "2025-11-25", "mcp-session-id": "x" };
  const attempts = {
    "a list": ["POST", { jsonrpc: "2.0", id: 1, method: "tools/list" }, {}],
    "a subscription": ["POST", { jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params: {} }, stream],
    "a stream": ["GET", undefined, stream],
    "a message that is none": ["POST", "x", {}],
    "the end of a session": ["DELETE", undefined, stream],
  };
  for (const [what, [method, body, more]] of Object.entries(attempts)) {
    const reply = await post(own, body, { authorization: `Bearer ${weak}`, ...more }, method);
    const challenge = reply.headers.get("www-authenticate") ?? "";
    const found = [reply.status, /error="insufficient_scope"/.test(challenge), /scope="mcp"/.test(challenge)];
    check(`too few scopes for ${what}`, [...found, reply.headers.get("content-type")], [403, true, true, "application/json"]);
  }

  // No backend gets a token of a client, and nothing keeps one.
  const secrets = [...Object.values(tokens), weak];
  const exported = run(GATEWAY, ["events", "--json", "--all", "--config", join(folder, "roles.toml"), ...events], "events");
  await exported.ended;
  const told = await callTool(own, "get_events", { limit: 1000 }, tokens.operator);
  check("events say who has called", [exported.text, told].map((text) => text.includes(`${one.name} root`)), [true, true]);
  const stdio = ["b.env", "b.log", "b.err"].map((name) => readFileSync(join(folder, name), "latin1"));
  check("the backends have got calls", [ahead.seen.text, beside.seen.text, stdio[1]].map((text) => text.includes("greet")), [true, true, true]);
  const places = { oauth: ahead.seen.text, http: beside.seen.text, environment: stdio[0], stdin: stdio[1], stderr: stdio[2] };
  Object.assign(places, { events: exported.text, get_events: told, log: gate.text, state: contents(join(folder, "state")) });
  for (const [place, text] of Object.entries(places)) check(`tokens of clients in ${place}`, shows(text, secrets), 0);
  const bearers = new Set([...ahead.seen.text.matchAll(/Bearer ([^"\s]+)/g)].map((found) => found[1]));
  check("the backend gets the gateway's own token", [...bearers].every((token) => given.some((one) => one.access_token === token)), true);
  check("a backend without OAuth gets none", /authorization/i.test(beside.seen.text), false);
  check("a token for the backend at the gateway", (await post(own, {}, { authorization: `Bearer ${given[0].access_token}` })).status, 401);
  check("a token for the gateway at the backend", (await post(resource, {}, { authorization: `Bearer ${tokens.operator}` })).status, 401);

  // With two issuers a claim needs the name of its issuer.
  gate.kill();
  await gate.ended;
  const before = ROLES.replace('"group:ops" =', `"${one.name} group:ops" =`);
  writeFileSync(join(folder, "roles.toml"), backends + before);
  gate = run(GATEWAY, ["--config", join(folder, "roles.toml"), ...events, ...trust(one.name, two.name)], "gateway");
  await isUp(port);
  const greet = async (token) => await callTool(own, "b__greet", { name: "Ada" }, token);
  const greets = await eventually("its own issuer", async () => (await greet(tokens.oncall)) === "Hello, Ada!");
  check("the group of the named issuer", greets, true);
  for (const [what, claims] of Object.entries({ group: { groups: ["ops"] }, subject: { sub: "root" } })) {
    const answer = await greet(await token(claims, two));
    check(`the same ${what} of another issuer`, answer.includes("not found"), true);
  }
  gate.kill();
  for (const end of [stop, one.stop, two.stop, ahead.stop, beside.stop]) await end();
}

try {
  await asClient();
  await withRoles();
} catch (error) {
  console.log(`FAILED oauth ${error.stack}`);
} finally {
  // A gateway that is ending still writes into the folder.
  const ended = (child) =>
    child.exitCode !== null || child.signalCode !== null || new Promise((resolve) => child.once("exit", resolve));
  for (const child of children) child.kill();
  await Promise.all(children.map(ended));
  if (!process.env.KEEP) rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
