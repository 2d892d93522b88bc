// @ts-check
// Requests to the server, each with the token of the person: calls of MCP (2026-07-28), and what the service shows
// beside its tools. The token is kept until the tab is closed.

const TOKEN = "mcp-page-token";
const VERSION = "2026-07-28";

/** A request that was not successful. */
export class RequestError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The view whose tools are listed and called; empty for the server itself. */
let view = "";

/** @param {string} name */
export const chooseView = (name) => {
  view = name;
};

/** Announces that the sign-in is over. */
export const signedOut = new EventTarget();

/**
 * @param {string} path
 * @param {unknown} [body]
 * @param {{headers?: Record<string, string>, signal?: AbortSignal}} [options]
 */
async function send(path, body = {}, { headers = {}, signal } = {}) {
  const token = sessionStorage.getItem(TOKEN);
  let response;
  try {
    response = await fetch(`/page/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }), ...headers },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "The server does not answer.");
  }
  if (response.status === 401) {
    sessionStorage.removeItem(TOKEN);
    signedOut.dispatchEvent(new Event("signed-out"));
  }
  return response;
}

/**
 * Sends a request and returns its JSON.
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function post(path, body, signal) {
  const response = await send(path, body, { signal });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const reason = typeof answer.error === "string" ? answer.error : answer.error?.message;
    throw new RequestError(response.status, reason ?? `The server answered with ${response.status}.`);
  }
  return answer;
}

/** @param {string} topic @param {unknown} [body] @param {AbortSignal} [signal] */
export const data = (topic, body, signal) => post(`data/${topic}`, body, signal);

/** @param {string} token */
export const signIn = (token) => sessionStorage.setItem(TOKEN, token.trim());

export const signOut = () => sessionStorage.removeItem(TOKEN);

/**
 * Reads server-sent events.
 * @param {Response} response
 * @param {(message: any) => void} handle
 */
async function readEvents(response, handle) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r", "");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:"));
      text = text.slice(end + 2);
      const json = lines.map((line) => line.slice(5)).join("\n").trim();
      if (json) handle(JSON.parse(json));
    }
  }
}

/**
 * Reports changes until it is stopped, and connects again when the stream ends. A hidden page has no stream: a browser
 * opens six connections to a host, for all its tabs.
 * @param {(tick: {events: number, lists: number}) => void} changed
 * @param {(isConnected: boolean) => void} connected
 */
export function follow(changed, connected) {
  let isStopped = false;
  let stream = new AbortController();
  const look = () => document.hidden && stream.abort();
  document.addEventListener("visibilitychange", look);
  const stop = () => {
    isStopped = true;
    stream.abort();
    document.removeEventListener("visibilitychange", look);
  };
  (async () => {
    for (;;) {
      await shown();
      if (isStopped) return;
      stream = new AbortController();
      const { signal } = stream;
      try {
        const response = await send("live", {}, { signal });
        if (response.status === 401 || response.status === 404) return;
        if (response.ok) {
          connected(true);
          await readEvents(response, changed);
        }
      } catch {
        // Tried again.
      }
      if (signal.aborted) continue;
      connected(false);
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  })();
  return stop;
}

/** Waits until the page is visible. @returns {Promise<void>} */
const shown = () =>
  new Promise((resolve) => {
    if (!document.hidden) return resolve();
    document.addEventListener("visibilitychange", () => resolve(), { once: true });
  });

let nextId = 1;

/**
 * One request of MCP.
 * @param {string} method
 * @param {Record<string, any>} params
 * @param {{signal?: AbortSignal, onMessage?: (message: any) => void, headers?: Record<string, string>}} [options]
 */
export async function request(method, params, { signal, onMessage, headers = {} } = {}) {
  const id = nextId++;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": { name: "page", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {}, url: {} }, sampling: {}, extensions: { "io.modelcontextprotocol/tasks": {} } },
    progressToken: id,
  };
  const body = { jsonrpc: "2.0", id, method, params: { ...params, _meta } };
  const name = params.name ?? params.taskId;
  const response = await send(view ? `mcp/${encodeURIComponent(view)}` : "mcp", body, {
    signal,
    headers: {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": method,
      ...(name ? { "mcp-name": name } : {}),
      ...headers,
    },
  });
  /** @type {any} */
  let answer;
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
    await readEvents(response, (message) => {
      if (message.id === id && !message.method) answer = message;
      else onMessage?.(message);
    });
  } else {
    answer = await response.json().catch(() => undefined);
  }
  if (!answer) throw new RequestError(response.status, "The connection ended before the answer.");
  if (answer.error) throw new RequestError(response.status, answer.error.message ?? String(answer.error));
  return answer.result;
}

/** All tools that the server lists. */
export async function listTools() {
  const tools = [];
  let cursor;
  do {
    const page = await request("tools/list", cursor ? { cursor } : {});
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools;
}

/** @param {unknown} value */
function headerValue(value) {
  const text = String(value);
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith("=?")) return text;
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return `=?base64?${btoa(bytes)}?=`;
}

/**
 * The answers of a person to the questions of a server.
 * @param {Record<string, any>} questions
 * @param {(question: any) => Promise<any>} ask
 */
async function answers(questions, ask) {
  /** @type {Record<string, any>} */
  const given = Object.create(null);
  for (const [name, question] of Object.entries(questions)) {
    given[name] = await ask(question);
    if (!given[name]) throw new Error("You have declined what the server asks for.");
  }
  return given;
}

/**
 * Follows a call that has become a task to its end. It is cancelled when the person gives up.
 * @param {any} task
 * @param {{signal?: AbortSignal, onTask?: (task: any) => void, ask: (question: any) => Promise<any>}} options
 */
async function followTask(task, { signal, onTask, ask }) {
  const { taskId } = task;
  const answered = new Set();
  try {
    for (;;) {
      onTask?.(task);
      if (task.status === "completed") return task.result;
      if (task.status === "failed") throw new RequestError(200, task.error?.message ?? "The task has failed.");
      if (task.status === "cancelled") throw new RequestError(200, "The task was cancelled.");
      const open = Object.entries(task.inputRequests ?? {}).filter(([name]) => !answered.has(name));
      if (open.length) {
        await request("tasks/update", { taskId, inputResponses: await answers(Object.fromEntries(open), ask) }, { signal });
        open.forEach(([name]) => answered.add(name));
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(task.pollIntervalMs ?? 1000, 200), 5000)));
      signal?.throwIfAborted();
      task = await request("tasks/get", { taskId }, { signal });
    }
  } catch (error) {
    if (!(error instanceof RequestError)) await request("tasks/cancel", { taskId }).catch(() => undefined);
    throw error;
  }
}

/**
 * Calls a tool. A server that needs something from its user ends the round with questions; the call is then repeated
 * with the answers.
 * @param {any} tool
 * @param {Record<string, any>} args
 * @param {{signal?: AbortSignal, onMessage?: (message: any) => void, onTask?: (task: any) => void, ask: (question: any) => Promise<any>}} options
 */
export async function callTool(tool, args, { signal, onMessage, onTask, ask }) {
  /** @type {Record<string, string>} */
  const headers = {};
  for (const [name, schema] of Object.entries(tool.inputSchema?.properties ?? {})) {
    const header = /** @type {any} */ (schema)?.["x-mcp-header"];
    if (header && Object.hasOwn(args ?? {}, name) && args[name] !== undefined) headers[`mcp-param-${header}`] = headerValue(args[name]);
  }
  let round = {};
  for (;;) {
    const params = { name: tool.name, arguments: args, ...round };
    const result = await request("tools/call", params, { signal, onMessage, headers });
    if (result.resultType === "task") return followTask(result, { signal, onTask, ask });
    if (result.resultType !== "input_required") return result;
    round = { inputResponses: await answers(result.inputRequests ?? {}, ask), requestState: result.requestState };
  }
}
