// Authorization with real issuers: `node oauth.mjs URL SERVER`. It starts SERVER itself, because an issuer is
// set at its start: one that trusts oidc-provider, a certified one, and one that trusts a server for wrong
// tokens. The client is the OAuth client of the TypeScript SDK.

import { spawn } from "node:child_process";
import { createHmac, createPublicKey } from "node:crypto";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { OAuth2Server } from "oauth2-mock-server";

import { check, children, freePort, isUp, logIn, machineToken, startProvider } from "./issuers.mjs";

const server = process.argv[3];
const CALLBACK = "http://127.0.0.1:9/callback";
// Installed beside this package, for other tests.
const PYTHON = new URL("../python/bin/python", import.meta.url).pathname;
const LOGIN = new URL("../python/login.py", import.meta.url).pathname;

/** Starts a server that trusts the issuer. Returns its URL, which is the resource. */
async function start(issuer, ...more) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const own = ["--port", port, "--auth-issuer", issuer, "--auth-resource", url];
  const child = spawn(server, [...own, ...more].map(String), { stdio: "ignore" });
  children.push(child);
  await isUp(port);
  return url;
}

/** Calls a server with a token. Returns the status, and the challenge. */
async function call(url, token, body = { jsonrpc: "2.0", id: 1, method: "tools/list" }) {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  if (token) headers.authorization = `Bearer ${token}`;
  const reply = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  await reply.text();
  return { status: reply.status, challenge: reply.headers.get("www-authenticate") };
}

/** The OAuth client of the SDK, which stores everything in memory. */
function memory() {
  const stored = {};
  return {
    stored,
    redirectUrl: CALLBACK,
    clientMetadata: {
      client_name: "matrix",
      redirect_uris: [CALLBACK],
      grant_types: ["authorization_code"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    },
    clientInformation: () => stored.client,
    saveClientInformation: (client) => void (stored.client = client),
    tokens: () => stored.tokens,
    saveTokens: (tokens) => void (stored.tokens = tokens),
    redirectToAuthorization: (url) => void (stored.url = url),
    saveCodeVerifier: (verifier) => void (stored.verifier = verifier),
    codeVerifier: () => stored.verifier,
  };
}

/** Logs in with the Python SDK. Returns the number of tools that it sees. */
async function loginOfPython(url) {
  const child = spawn(PYTHON, [LOGIN, url], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { value: start } = await lines.next();
  child.stdin.write(`${await logIn(start)}\n`);
  const { value: tools } = await lines.next();
  return Number(tools);
}

async function withProvider() {
  const { issuer, stop } = await startProvider();
  const url = await start(issuer, "--auth-scopes", "tools:read");
  const other = await start(issuer);

  const { status, challenge } = await call(url);
  check("a request without a token", status, 401);
  const metadata = /resource_metadata="([^"]+)"/.exec(challenge)?.[1];
  check("the scope of the challenge", /scope="([^"]*)"/.exec(challenge)?.[1], "tools:read");
  const document = await (await fetch(metadata)).json();
  check("the metadata", [document.resource, document.authorization_servers], [url, [issuer]]);

  // The SDK's own client: metadata, registration, PKCE, resource, code, token.
  const provider = memory();
  const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const first = transport();
  const failure = await new Client({ name: "matrix", version: "1" }).connect(first).catch((error) => error);
  check("the first connection", failure instanceof UnauthorizedError, true);
  check("the resource that it asks for", provider.stored.url?.searchParams.get("resource"), url);
  await first.finishAuth((await logIn(provider.stored.url)).searchParams.get("code"));
  const client = new Client({ name: "matrix", version: "1" });
  await client.connect(transport());
  check("tools after the login", (await client.listTools()).tools.length > 0, true);
  await client.close();
  const token = provider.stored.tokens.access_token;
  const header = JSON.parse(Buffer.from(token.split(".")[0], "base64url"));
  check("the header of the token", [header.alg, header.typ], ["ES256", "at+jwt"]);
  check("the token at another resource", (await call(other, token)).status, 401);

  if (existsSync(PYTHON)) check("tools after the login in Python", (await loginOfPython(url)) > 0, true);

  check("a machine", (await call(url, await machineToken(issuer, url, "tools:read"))).status, 200);
  const weak = await call(url, await machineToken(issuer, url, "tools:write"));
  check("too few scopes", [weak.status, /error="insufficient_scope"/.test(weak.challenge)], [403, true]);
  const listen = { jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params: {} };
  const stream = await call(url, await machineToken(issuer, url, "tools:write"), listen);
  check("too few scopes for a stream", stream.status, 403);
  stop();
  check("the token while the issuer is down", (await call(url, token)).status, 200);
}

async function withWrongTokens() {
  const issuer = new OAuth2Server();
  const key = await issuer.issuer.keys.generate("RS256");
  await issuer.start(0, "127.0.0.1");
  const name = issuer.issuer.url;
  const details = join(mkdtempSync(join(tmpdir(), "oauth-")), "server.toml");
  writeFileSync(details, `auth_jwks = "${name}/jwks"\nauth_token_types = ["at+jwt", "JWT"]\n`);
  const url = await start(name, "--config", details);
  const now = Math.floor(Date.now() / 1000);
  const token = (change, kid = key.kid) =>
    issuer.issuer.buildToken({
      kid,
      scopesOrTransform: (header, payload) => {
        Object.assign(payload, { sub: "alice", aud: url, exp: now + 600 });
        change?.(header, payload);
      },
    });
  const status = async (token) => (await call(url, token)).status;
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const good = await token();
  const [head, claims, signature] = good.split(".");
  const decoded = JSON.parse(Buffer.from(head, "base64url"));
  check("a right token", await status(good), 200);
  const wrong = {
    "another issuer": (_, payload) => (payload.iss = "http://127.0.0.1:1"),
    "another audience": (_, payload) => (payload.aud = "http://127.0.0.1:1/mcp"),
    "no audience": (_, payload) => delete payload.aud,
    "an end that has passed": (_, payload) => (payload.exp = now - 60),
    "no end": (_, payload) => delete payload.exp,
    "a begin that comes": (_, payload) => (payload.nbf = now + 120),
    "no subject": (_, payload) => delete payload.sub,
    "another type": (header) => (header.typ = "id+jwt"),
    "a huge token": (_, payload) => (payload.groups = ["x".repeat(20_000)]),
  };
  for (const [name, change] of Object.entries(wrong)) check(name, await status(await token(change)), 401);
  const next = await issuer.issuer.keys.generate("RS256");
  check("a key that is new", await status(await token(undefined, next.kid)), 200);
  check("no signature", await status(`${head}.${claims}.`), 401);
  check("the algorithm none", await status(`${part({ ...decoded, alg: "none" })}.${claims}.`), 401);
  check("another signature", await status(`${head}.${claims}.${signature.slice(0, -4)}AAAA`), 401);
  check("a key that is unknown", await status(`${part({ ...decoded, kid: "x" })}.${claims}.${signature}`), 401);
  // The public key as the secret of an HMAC, as PEM and as in the set of keys.
  const { keys } = await (await fetch(`${name}/jwks`)).json();
  const pem = createPublicKey({ key: keys[0], format: "jwk" }).export({ type: "spki", format: "pem" });
  for (const secret of [pem, JSON.stringify(keys[0]), keys[0].n]) {
    const message = `${part({ ...decoded, alg: "HS256" })}.${claims}`;
    const forged = `${message}.${createHmac("sha256", secret).update(message).digest("base64url")}`;
    check("an HMAC with the public key", await status(forged), 401);
  }
  const later = await token((_, payload) => (payload.jti = "2"));
  await issuer.stop();
  check("keys that cannot be fetched", await status(later), 200);
}

try {
  await withProvider();
  await withWrongTokens();
} catch (error) {
  console.log(`FAILED oauth ${error.stack}`);
} finally {
  for (const child of children) child.kill();
}
process.exit(0);
