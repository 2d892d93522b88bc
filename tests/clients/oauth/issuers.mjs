// A real issuer of tokens, and what all checks of authorization need.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";

import Provider from "oidc-provider";

export const children = [];

export function check(name, found, expected) {
  const [is, should] = [JSON.stringify(found), JSON.stringify(expected)];
  console.log(is === should ? `ok oauth ${name}` : `FAILED oauth ${name}: ${is} instead of ${should}`);
}

export function freePort() {
  return new Promise((resolve) => {
    const socket = createSocket().listen(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}

/** Waits until the server at this port answers. */
export async function isUp(port) {
  for (let tries = 0; tries < 100; tries++) {
    const reply = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
    if (reply?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the server does not start");
}

/**
 * oidc-provider, with a login that anybody may fill in, and access tokens for one resource each, which live so many
 * seconds. It keeps the grants and the tokens that it has given.
 */
export async function startProvider(lifetime = 600) {
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "machine",
        client_secret: "machine-secret",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
    pkce: { required: () => true },
    scopes: ["openid", "offline_access", "tools:read", "tools:write"],
    jwks: { keys: [await signingKey()] },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: "tools:read tools:write",
          accessTokenFormat: "jwt",
          accessTokenTTL: lifetime,
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  const given = [];
  provider.use(async (context, next) => {
    await next();
    if (context.path === "/token" && context.status === 200) {
      given.push({ at: Date.now(), grant: context.oidc.params.grant_type, ...context.body });
    }
  });
  const listener = createServer(provider.callback()).listen(port, "127.0.0.1");
  return { issuer, given, stop: () => listener.close() };
}

async function signingKey() {
  const { subtle } = globalThis.crypto;
  const pair = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const { key_ops, ext, ...key } = await subtle.exportKey("jwk", pair.privateKey);
  return { ...key, kid: randomUUID(), alg: "ES256", use: "sig" };
}

/** Follows an authorization as a browser would, filling in every form. Returns the address at the end. */
export async function logIn(start) {
  const jar = new Map();
  const callback = new URL(start).searchParams.get("redirect_uri");
  let [url, options] = [new URL(start), {}];
  for (let step = 0; step < 20; step++) {
    if (url.href.startsWith(callback)) return url;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const reply = await fetch(url, { ...options, redirect: "manual", headers: { ...options.headers, cookie } });
    for (const set of reply.headers.getSetCookie()) {
      const [name, value] = set.split(";")[0].split("=");
      if (value) jar.set(name, value);
      else jar.delete(name);
    }
    const location = reply.headers.get("location");
    const page = await reply.text();
    options = {};
    if (location) {
      url = new URL(location, url);
      continue;
    }
    const form = /<form[^>]*action="([^"]+)"[^>]*>([\s\S]*?)<\/form>/.exec(page);
    if (!form) throw new Error(`no form at ${url}: ${reply.status} ${page.slice(0, 300)}`);
    const fields = new URLSearchParams({ login: "alice", password: "x" });
    for (const [, name, value] of form[2].matchAll(/<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"/g)) fields.set(name, value);
    url = new URL(form[1], url);
    const type = "application/x-www-form-urlencoded";
    options = { method: "POST", headers: { "content-type": type }, body: fields.toString() };
  }
  throw new Error("the login does not end");
}

export async function machineToken(issuer, resource, scope) {
  const body = new URLSearchParams({ grant_type: "client_credentials", resource, scope });
  const authorization = `Basic ${btoa("machine:machine-secret")}`;
  const reply = await fetch(`${issuer}/token`, { method: "POST", headers: { authorization }, body });
  const { access_token: token, ...rest } = await reply.json();
  if (!token) throw new Error(JSON.stringify(rest));
  return token;
}
