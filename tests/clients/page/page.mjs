// The page of the gateway and of a server alone, in headless Chromium: `node page.mjs URL SERVER`. It starts the gateway
// and the servers of the folder of SERVER itself. Screenshots of every tab are in the folder `shots` beside it.

import { deepStrictEqual as same, ok } from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const SERVER = process.argv[3];
const GATEWAY = join(dirname(SERVER), "mcp-gateway");
const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "page-"));
const shots = join(here, "shots");
mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const children = [];
// The person who looks at the page, and the program that calls tools.
const [PERSON, AGENT] = ["token-of-ada-16-chars", "token-of-agent-16-chars"];
const TOKENS = `ada ${PERSON}\nbob token-of-bob-16-chars\nagent ${AGENT}\n`;
const TABS = ["overview", "backends", "tools", "activity", "approvals", "try", "connect", "configuration"];

async function check(name, run) {
  try {
    await run();
    console.log(`ok page ${name}`);
  } catch (error) {
    console.log(`FAILED page ${name}: ${String(error.stack ?? error).split(/\s+/).join(" ").slice(0, 900)}`);
  }
}

async function until(what, condition, timeout = 60_000) {
  const end = Date.now() + timeout;
  for (;;) {
    const found = await condition();
    if (found) return found;
    ok(Date.now() < end, `${what} did not come`);
    await sleep(100);
  }
}

/** Starts a program with a page. Returns the addresses and what it prints. */
async function start(program, args, more = {}) {
  const env = { PATH: process.env.PATH, HOME: folder, XDG_STATE_HOME: join(folder, "state"), ...more };
  const child = spawn(program, ["--port", "0", ...args], { env, stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  const started = { child, text: "" };
  child.stderr.on("data", (data) => (started.text += data));
  const found = await until(`the address: ${program}`, () => child.exitCode !== null ? ok(false, started.text) : /listens on (http:\/\/[^/]+)\/mcp/.exec(started.text));
  started.url = found[1];
  return started;
}

const hostile = (...args) => `command = [${[process.execPath, join(here, "hostile.mjs"), ...args].map((part) => JSON.stringify(part)).join(", ")}]`;

function configuration(turn) {
  const file = join(folder, "gateway.toml");
  writeFileSync(file, `pins = "hold"
[events]
store = "events.db"
record = ["fixture__slow_compute.seconds"]
[approvals]
approve = ["fixture__echo"]
[server]
call_timeout = 45
[views.small]
backends = ["fixture"]
allow = ["fixture__list_projects"]
[views.small.tools.fixture__list_projects]
name = "projects"
[backends.fixture]
command = [${JSON.stringify(SERVER)}, "--stdio"]
${process.env.MCP_TEST_DOCKER_HOST ? `[backends.docker]\ncommand = [${JSON.stringify(join(dirname(SERVER), "docker-mcp-server"))}, "--stdio", "--docker-host", ${JSON.stringify(process.env.MCP_TEST_DOCKER_HOST)}]` : ""}
[backends.hostile]
${hostile()}
env = { TURN = "${turn}", SECRET_TOKEN = "hunter2-of-the-configuration" }
[backends.many]
${hostile("500")}
[backends.broken]
command = ["/nonexistent/server"]
[backends.off]
command = ["/nonexistent/server"]
disabled = true
[backends.unset]
command = ["/nonexistent/server", "\${NOT_SET_HERE}"]
[backends.remote]
url = "http://127.0.0.1:9/mcp?key=hunter2-of-the-query"
token = "hunter2-of-the-token"
[roles.reader]
allow = ["fixture__list_projects"]
[roles.boss]
allow = ["*"]
own = ["gateway_status", "gateway_restart", "events:all", "approve"]
[roles.worker]
allow = ["*"]
[principals]
ada = "boss"
bob = "reader"
agent = "worker"
`);
  return file;
}

async function executable() {
  const installed = "/usr/bin/chromium";
  if (existsSync(installed)) return installed;
  process.env.TMPDIR = here;
  const { default: packed } = await import("@sparticuz/chromium");
  const path = await packed.executablePath();
  delete process.env.TMPDIR;
  return path;
}

const browser = await chromium.launch({
  executablePath: await executable(),
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP foreign.test 127.0.0.1"],
});

/** Opens a page that notes what its policy refuses, and every error. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`CSP ${event.violatedDirective} ${event.blockedURI}`));
  });
  page.on("console", (message) => {
    // Answers such as 403 are told there, too.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) page.problems.push(message.text());
  });
  page.on("pageerror", (error) => page.problems.push(String(error)));
  if (process.env.PAGE_FILES) {
    await page.route(/\/page\/[^/]+\/.+\.(js|css)$/, (route) => {
      const name = new URL(route.request().url()).pathname.split("/").slice(3).join("/");
      return route.fulfill({ path: join(process.env.PAGE_FILES, name), headers: { "content-type": name.endsWith("css") ? "text/css" : "text/javascript" } });
    });
  }
  return page;
}

const tab = async (page, name) => {
  await page.goto(`${new URL(page.url()).origin}/#${name}`);
  await page.locator(`nav a[aria-current]`, { hasText: new RegExp(name.split("/")[0], "i") }).waitFor();
};

async function serious(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return bad.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 2).map((node) => node.html).join(" ")}`);
}

/** Calls a tool as a client of another program. */
async function call(url, name, args, token = AGENT) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } };
  const reply = await fetch(`${url}/mcp`, { method: "POST", headers, body: JSON.stringify(body) });
  return reply.json();
}

/** Calls a tool without arguments as a client of this name. */
async function callAs(url, client, name) {
  const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": { name: client, version: "2.1" } };
  const headers = { "content-type": "application/json", authorization: `Bearer ${AGENT}`, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: {}, _meta: meta } };
  same((await fetch(`${url}/mcp`, { method: "POST", headers, body: JSON.stringify(body) })).status, 200);
}

const root = (at) => (existsSync(join(at, "crates/mcp-serve/page")) ? at : root(dirname(at)));

await check("types", () => {
  const files = join(root(here), "crates/mcp-serve/page");
  const options = { checkJs: true, allowJs: true, noEmit: true, strict: true, noImplicitAny: false, target: "es2022", module: "es2022", moduleResolution: "bundler", lib: ["es2023", "dom", "dom.iterable"], types: [], skipLibCheck: true };
  const project = join(folder, "tsconfig.json");
  writeFileSync(project, JSON.stringify({ compilerOptions: options, include: [`${files}/**/*.js`], exclude: [`${files}/vendor`] }));
  const tsc = join(here, "node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [tsc, "-p", project], { encoding: "utf8" });
});

/** A gateway whose tokens are in the file of this name. */
async function startGateway(name, args = []) {
  const tokens = join(folder, name);
  writeFileSync(tokens, TOKENS);
  return start(GATEWAY, ["--config", configuration("one"), "--token-file", tokens, ...args]);
}

async function signIn(page, token) {
  await page.getByLabel("Token of this server").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

const gateway = await startGateway("tokens");
const page = await open();

await check("a token signs in", async () => {
  await page.goto(`${gateway.url}/`);
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  same([await serious(page), await page.getByRole("alert").count()], [[], 0]);
  await page.screenshot({ path: join(shots, "sign-in.png") });
  await signIn(page, "wrong");
  await page.getByText("this token is not valid here").waitFor();
  await signIn(page, PERSON);
  await page.locator("nav").waitFor();
});

await check("backends show their state and reason", async () => {
  await tab(page, "backends");
  for (const name of ["fixture", "hostile", "many"]) {
    await page.locator(".card", { has: page.locator("h2", { hasText: name }) }).getByText("running").waitFor();
  }
  const broken = page.locator(".card", { has: page.locator("h2", { hasText: "broken" }) });
  await broken.getByText("/nonexistent/server").first().waitFor();
  // Those that a person must look at come first, and say what helps; one that was switched off is none of them.
  const cards = (await page.locator(".card h2").allInnerTexts()).slice(0, 3).map((text) => text.split(/\s/)[0]);
  same(cards, ["broken", "remote", "unset"]);
  for (const [name, color] of [["unset", "bad"], ["off", ""]]) {
    const badge = page.locator(".card", { has: page.locator("h2", { hasText: name }) }).locator(".badge");
    same(await badge.getAttribute("class"), `badge ${color}`);
  }
  same(await page.locator(".failure", { hasText: "disabled by the configuration" }).count(), 0);
  ok(!(await page.content()).includes("hunter2"));
});

await check("hostile texts are texts", async () => {
  for (const name of ["backends", "tools/hostile/hostile__attack", "try/hostile__attack", "tools"]) {
    await tab(page, name);
    await sleep(300);
    same(await page.locator("img, script:not([src])").count(), 0);
    const text = await page.locator("main").innerText();
    ok(!/[\u202a-\u202e\u2066-\u2069\u200b]/.test(text), name);
  }
  await tab(page, "try/hostile__attack");
  for (const field of await page.locator("main textarea").all()) same(await field.inputValue(), "");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.getByText("Done", { exact: true }).waitFor();
  ok((await page.locator("main pre").first().innerText()).includes("<img src=x"));
  same(await page.locator("main img").count(), 0);
  ok((await page.title()) !== "owned");
  await page.evaluate(() => (location.hash = "tools/%"));
  await page.locator("nav a[aria-current]", { hasText: "Tools" }).waitFor();
  const shown = await page.evaluate(async () => {
    const { foreign } = await import(document.querySelector("script[src*='app.js']").src.replace("app.js", "ui.js"));
    return ["a\u061cb", "\u3164\u2800", "\u180e\ufe0f\u{e0041}", "one\n\ttwo ❤\ufe0f"].map(foreign);
  });
  same(shown, ["a\\u{61c}b", "\\u{3164}\\u{2800}", "\\u{180e}\\u{fe0f}\\u{e0041}", "one\n\ttwo ❤\ufe0f"]);
});

await check("500 tools are searched without lag", async () => {
  await tab(page, "tools");
  await page.getByText(/of 5\d\d tools/).waitFor();
  ok((await page.locator(".row").count()) < 60);
  const took = await page.evaluate(async () => {
    const input = document.querySelector("input[type=search]");
    const started = performance.now();
    input.value = "number 499";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    while (!document.querySelector(".row")?.textContent.includes("tool-499")) await new Promise(requestAnimationFrame);
    return performance.now() - started;
  });
  ok(took < 500, `${took} ms`);
  await page.locator(".row").first().click();
  await page.getByText("Input schema").waitFor();
  await page.keyboard.press("End");
});

await check("a form calls a tool with progress", async () => {
  await tab(page, "try/fixture__test_tool_with_progress");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.getByText("Done", { exact: true }).waitFor();
});

await check("a question of a tool is answered", async () => {
  await tab(page, "try/fixture__test_elicitation");
  const field = page.getByLabel("message", { exact: false }).first();
  if (await field.count()) await field.fill("Who are you?");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const question = page.getByRole("form", { name: "Question of the server" });
  await question.waitFor();
  await page.screenshot({ path: join(shots, "question.png") });
  for (const input of await question.locator("input, textarea").all()) await input.fill("ada@example.org");
  await question.getByRole("button", { name: "Answer" }).click();
  await page.getByText("Done", { exact: true }).waitFor();
});

await check("a question to the model is answered by the person, or declined", async () => {
  await tab(page, "try/fixture__test_sampling");
  await page.getByLabel("prompt", { exact: false }).first().fill("Who are you?");
  const question = page.getByRole("form", { name: "Question to the model" });
  for (const [button, result] of [["Answer", "LLM response: a person"], ["Decline", "You have declined what the server asks for."]]) {
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await question.getByText("Who are you?").waitFor();
    await question.getByLabel("Answer").fill("a person");
    await page.screenshot({ path: join(shots, "sampling.png") });
    same(await serious(page), []);
    await question.getByRole("button", { name: button }).click();
    await page.getByText(result).first().waitFor();
  }
});

await check("a view is chosen for tools, calls and addresses", async () => {
  await tab(page, "tools");
  await page.getByLabel("View").selectOption("small");
  await page.getByText("1 of 1 tools", { exact: false }).waitFor();
  await page.locator(".row", { hasText: "projects" }).waitFor();
  await page.screenshot({ path: join(shots, "view.png") });
  await tab(page, "try/projects");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.getByText("Done", { exact: true }).waitFor();
  await tab(page, "connect");
  await page.locator("main code", { hasText: `${gateway.url}/mcp/small` }).first().waitFor();
  await page.getByText(`"url": "${gateway.url}/mcp/small"`).first().waitFor();
  same(await serious(page), []);
  await page.getByLabel("View").selectOption("");
  await tab(page, "try/projects");
  await page.getByText("There is no such tool.").waitFor();
});

await check("activity is live and shows a trace", async () => {
  await tab(page, "activity");
  await page.locator(".row").first().waitFor();
  await call(gateway.url, "fixture__fail", {});
  await page.locator(".row", { hasText: "fixture__fail" }).first().waitFor();
  await page.locator(".row", { hasText: "fixture__fail" }).first().click();
  await page.locator(".waterfall .bar").first().waitFor();
});

await check("activity is filtered by the gateway, and its rows say why", async () => {
  await call(gateway.url, "fixture__list_projects", {});
  for (let times = 0; times < 3; times++) await call(gateway.url, "fixture__fail", {});
  const choose = (name, value) => page.getByLabel(name, { exact: true }).selectOption(value);
  await choose("Outcome", "failed");
  await page.locator(".row", { hasText: "fixture__fail" }).filter({ hasText: "role worker: allowed by line" }).first().waitFor();
  await page.locator(".row", { hasText: /failed × \d/ }).first().waitFor();
  same(await page.locator(".row", { hasText: "list_projects" }).count(), 0);
  await choose("Principal", "agent");
  await choose("Kind", "tool_error");
  await page.locator(".row", { hasText: "fixture__fail" }).first().waitFor();
  const tool = page.getByLabel("Tool", { exact: true });
  await tool.fill("fixture__none");
  await page.getByText("No event matches.").waitFor();
  await tool.fill("");
  for (const name of ["Outcome", "Principal", "Kind"]) await choose(name, "");
  await page.locator(".row", { hasText: "list_projects" }).first().waitFor();
});

await check("activity loads under steady traffic, with one request at a time", async () => {
  await tab(page, "backends");
  let [pending, most, asked] = [0, 0, 0];
  const slow = async (route) => {
    most = Math.max(most, ++pending);
    asked++;
    // Longer than two changes are apart.
    await sleep(1200);
    pending--;
    await route.continue().catch(() => undefined);
  };
  await page.route("**/page/data/events", slow);
  let isOver = false;
  const traffic = (async () => {
    while (!isOver) {
      await call(gateway.url, "fixture__list_projects", {});
      await sleep(200);
    }
  })();
  try {
    await tab(page, "activity");
    await page.locator(".row").first().waitFor({ timeout: 8000 });
    await until("a second load", () => asked > 2);
    same(most, 1);
  } finally {
    isOver = true;
    await traffic;
    await page.unroute("**/page/data/events", slow);
  }
});

const hide = (isHidden) => page.evaluate((isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, isHidden);

await check("a hidden page has no stream", async () => {
  const isStream = (request) => request.url().endsWith("/page/live");
  const ended = page.waitForEvent("requestfailed", { predicate: isStream, timeout: 5000 });
  try {
    await hide(true);
    await ended;
  } finally {
    const begun = page.waitForRequest(isStream, { timeout: 5000 }).catch(() => undefined);
    await hide(false);
    ok(await begun, "no stream after the page was shown");
  }
  same(await page.getByText("not connected").count(), 0);
});

await check("a hidden page tells of each call that waits, once", async () => {
  await page.evaluate(() => {
    globalThis.told = [];
    globalThis.Notification = class {
      static permission = "granted";
      constructor(title, { body }) {
        globalThis.told.push(`${title} ${body}`);
      }
    };
    document.hasFocus = () => !document.hidden;
  });
  const told = () => page.evaluate(() => globalThis.told.length);
  const asked = () => page.waitForRequest((request) => request.url().endsWith("/page/data/state"));
  await hide(true);
  const first = call(gateway.url, "fixture__echo", { value: "first" });
  await until("the first notification", async () => (await told()) === 1);
  const second = call(gateway.url, "fixture__echo", { value: "second" });
  await until("the second notification", async () => (await told()) === 2);
  // The same calls again are not told again, nor is one that this page decides.
  await asked();
  await hide(false);
  await tab(page, "approvals");
  for (const value of ["first", "second"]) {
    const card = page.locator(".card:has(button)", { hasText: "fixture__echo" }).filter({ hasText: value });
    await card.getByRole("button", { name: "Refuse" }).click();
    await card.waitFor({ state: "detached" });
  }
  await Promise.all([first, second]);
  await page.getByText("No call waits.").waitFor();
  ok((await page.evaluate(() => globalThis.told)).every((text) => /^A call waits for a decision mcp-gateway: [12]$/.test(text)));
  same(await told(), 2);
});

await check("a card that has moved cannot be decided for a second", async () => {
  await tab(page, "approvals");
  await page.getByText("No call waits.").waitFor();
  const cards = page.locator(".card:has(button)", { hasText: "fixture__echo" });
  const answers = [];
  for (const value of ["first", "second"]) {
    answers.push(call(gateway.url, "fixture__echo", { value }));
    await cards.filter({ hasText: value }).waitFor();
    // The order is by seconds.
    await sleep(1100);
  }
  same((await cards.allInnerTexts()).map((text) => /first|second/.exec(text)[0]), ["first", "second"]);
  const second = cards.filter({ hasText: "second" }).getByRole("button", { name: "Refuse" });
  ok(await second.isEnabled());
  // In the frame of the change.
  const seen = page.evaluate(() => new Promise((resolve) => {
    const look = () => {
      const found = document.querySelectorAll("section.card:has(button)");
      if (found.length > 1) return requestAnimationFrame(look);
      resolve([...found[0].querySelectorAll("button")].map((button) => button.disabled));
    };
    look();
  }));
  await cards.first().getByRole("button", { name: "Approve" }).click();
  same(await seen, [true, true]);
  await second.click();
  const [one, other] = (await Promise.all(answers)).map((answer) => JSON.stringify(answer));
  ok(one.includes("first") && !/"text":"second|"value":"second/.test(other), `${one} ${other}`);
});

await check("a waiting call is approved", async () => {
  await tab(page, "approvals");
  await page.getByText("No call waits.").waitFor();
  const answer = call(gateway.url, "fixture__echo", { value: { for: "<b>ada</b>", token: "hunter2-of-the-call" } });
  const card = page.locator(".card:has(button)", { hasText: "fixture__echo" });
  await card.getByRole("button", { name: "Approve" }).waitFor();
  await page.screenshot({ path: join(shots, "approval.png") });
  ok(!(await page.content()).includes("hunter2"));
  const buttons = await card.getByRole("button").allInnerTexts();
  ok(buttons.indexOf("Refuse") < buttons.indexOf("Approve"), buttons.join());
  for (const known of ["Effect: ", "It waits because of line "]) {
    ok((await card.innerText()).includes(known), known);
  }
  await card.getByRole("button", { name: "Approve" }).click();
  const { result } = await answer;
  ok(JSON.stringify(result).includes("ada"), JSON.stringify(result));
});

await check("a changed tool is shown with its diff and approved", async () => {
  configuration("two");
  await tab(page, "tools");
  const changed = page.locator(".changed");
  await changed.getByText("turns").waitFor();
  await changed.getByText("Says two.").first().waitFor();
  await page.screenshot({ path: join(shots, "changed.png") });
  await changed.getByRole("button", { name: "Approve" }).click();
  await changed.waitFor({ state: "detached" });
});

await check("configuration shows the last reload and no secret", async () => {
  await tab(page, "configuration");
  await page.locator(".card", { has: page.locator("h2", { hasText: "Server" }) }).getByText("call_timeout").waitFor();
  await page.getByText("applied").waitFor();
  writeFileSync(join(folder, "gateway.toml"), "[backends.x]\nurll = 1\n");
  await page.getByText("refused").waitFor();
  ok(!(await page.content()).includes("hunter2"));
  configuration("two");
  await page.getByText("applied").waitFor();
  ok(!(await page.content()).includes("hunter2"));
});

await check("hosts have their entries, and a tick once they have called", async () => {
  await tab(page, "connect");
  const card = page.locator(".card", { has: page.locator("h2", { hasText: "Claude Code" }) });
  await card.getByText('"mcpServers"').waitFor();
  same(await page.locator(".cards .card").count(), 13);
  same(await card.getByText("has called").count(), 0);
  await callAs(gateway.url, "claude-code", "fixture__list_projects");
  await card.getByText("has called").waitFor();
  same(await page.getByText("has called").count(), 1);
});

await check("the first screen has the last hour, its failures, and what needs attention", async () => {
  const answer = await call(gateway.url, "fixture__slow_compute", { seconds: -1 });
  ok(answer.result?.isError || answer.error, JSON.stringify(answer));
  await tab(page, "overview");
  const attention = page.locator(".failure", { hasText: "broken crash loop:" });
  await attention.getByText("check `command`, `env` and `cwd` in [backends.broken]").waitFor();
  await page.locator(".failure", { hasText: "Set NOT_SET_HERE and start the gateway again" }).waitFor();
  same(await page.locator(".failure", { hasText: "off disabled" }).count(), 0);
  const table = (heading) => page.locator(".card", { has: page.locator("h2", { hasText: heading }) }).locator("table");
  const row = table("Failed").locator("tr", { hasText: "fixture__slow_compute" }).first();
  await row.waitFor();
  const used = table("Tools").locator("tr", { hasText: "fixture__slow_compute" });
  // The tools are loaded beside the calls.
  await used.getByText("–").waitFor({ state: "detached" });
  const [calls, failed, slow, tokens] = (await used.locator(".number").allInnerTexts()).map((text) => text.trim());
  ok(/^\d+$/.test(calls) && Number(failed) >= 1 && / m?s$/.test(slow) && Number(tokens.replace(",", "")) > 20, `${calls} ${failed} ${slow} ${tokens}`);
  await page.screenshot({ path: join(shots, "overview.png") });
  await row.getByText("Try again").click();
  await page.locator("nav a[aria-current]", { hasText: "Try" }).waitFor();
  same(await page.getByLabel("seconds", { exact: false }).first().inputValue(), "-1");
  // The log keeps the values of others only if the file says so.
  await call(gateway.url, "fixture__slow_compute", { seconds: -1, other: true });
  await tab(page, "overview");
  await table("Failed").locator("tr", { hasText: "fixture__slow_compute" }).getByText("with 1 of 2 arguments: the log keeps those in record").waitFor();
});

await check("a backend that dies while one looks", async () => {
  await tab(page, "backends");
  const card = page.locator(".card", { has: page.locator("h2", { hasText: "hostile" }) });
  await card.getByText("running").waitFor();
  const restarts = async () => Number(await card.locator("dt", { hasText: "Restarts" }).locator("xpath=following-sibling::dd").innerText());
  const before = await restarts();
  const lines = execFileSync("pgrep", ["-P", String(gateway.child.pid), "-f", "hostile.mjs$"], { encoding: "utf8" }).trim().split("\n");
  lines.forEach((id) => process.kill(Number(id), "SIGKILL"));
  await until("the restart", async () => (await restarts()) > before);
  await card.getByText("running").waitFor();
});

await check("restart of a backend", async () => {
  await tab(page, "backends");
  const card = page.locator(".card", { has: page.locator("h2", { hasText: "many" }) });
  await card.getByRole("button", { name: "Restart" }).click();
  await card.getByText("running").waitFor();
  await tab(page, "activity");
  await page.locator(".row", { hasText: "gateway_restart" }).first().waitFor();
});

await check("10,000 events without lag", async () => {
  const one = (id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "fixture__list_projects", arguments: {} } });
  // A batch has at most 50 messages.
  for (let round = 0; round < 10_000; round += 50) {
    const body = Array.from({ length: 50 }, (_, at) => one(at));
    const reply = await fetch(`${gateway.url}/mcp`, { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${AGENT}` }, body: JSON.stringify(body) });
    same(reply.status, 200);
    await reply.text();
  }
  await tab(page, "activity");
  await page.getByRole("button", { name: /Load up to/ }).click();
  await page.getByText("10,000 events").waitFor({ timeout: 30_000 });
  ok((await page.locator(".row").count()) < 80);
  const frames = await page.evaluate(async () => {
    const list = document.querySelector(".list");
    let worst = 0;
    for (let at = 0; at < 60; at++) {
      const started = performance.now();
      list.scrollTop = (at * list.scrollHeight) / 60;
      await new Promise(requestAnimationFrame);
      worst = Math.max(worst, performance.now() - started);
    }
    return worst;
  });
  ok(frames < 250, `${frames} ms for a frame`);
});

await check("every tab in both themes has no serious finding of axe", async () => {
  const found = [];
  for (const theme of ["light", "dark"]) {
    await page.evaluate((name) => localStorage.setItem("mcp-page-theme", name), theme);
    await page.reload();
    for (const name of TABS) {
      await tab(page, { try: "try/fixture__generate_content", tools: "tools/fixture/fixture__generate_content" }[name] ?? name);
      await sleep(500);
      if (name === "activity") await page.locator(".row").nth(1).click();
      await sleep(300);
      await page.screenshot({ path: join(shots, `${name}-${theme}.png`) });
      found.push(...(await serious(page)).map((one) => `${name} ${theme} ${one}`));
    }
  }
  same(found, []);
});

await check("phone width needs no sideways scrolling, in both themes", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = [];
  for (const theme of ["light", "dark"]) {
    await page.evaluate((name) => localStorage.setItem("mcp-page-theme", name), theme);
    await page.reload();
    for (const name of TABS) {
      await tab(page, { try: "try/fixture__generate_content", tools: "tools/fixture/fixture__generate_content" }[name] ?? name);
      await sleep(300);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > 390) wide.push(`${name} ${width}`);
      await page.screenshot({ path: join(shots, `${name}-phone-${theme}.png`) });
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  same(wide, []);
});

await check("keyboard reaches everything", async () => {
  await tab(page, "tools");
  await page.locator(".list").focus();
  await page.keyboard.press("ArrowDown");
  await page.locator(".row.chosen").waitFor();
  await page.reload();
  await page.locator("nav").waitFor();
  await page.keyboard.press("Tab");
  same(await page.evaluate(() => document.activeElement?.textContent), "To the content");
});

await check("no other origin reaches the page", async () => {
  const pages = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<title>other</title>");
  });
  pages.listen(0, "127.0.0.1");
  await until("the other origin", () => pages.address());
  const other = await page.context().newPage();
  await other.goto(`http://127.0.0.1:${pages.address().port}/`);
  const send = (path, headers) => other.evaluate(async ([url, headers]) => {
    try {
      const reply = await fetch(url, { method: "POST", headers, body: "{}", mode: headers.authorization ? "cors" : "no-cors" });
      return `${reply.type} ${reply.status}`;
    } catch (error) {
      return String(error);
    }
  }, [`${gateway.url}${path}`, headers]);
  const authorization = `Bearer ${PERSON}`;
  ok(/Failed to fetch/.test(await send("/page/me", { authorization, "content-type": "application/json" })));
  ok(/Failed to fetch|opaque 0/.test(await send("/page/me", { "content-type": "text/plain" })));
  same(await page.evaluate(async (authorization) => (await fetch("/page/me", { method: "POST", headers: { authorization } })).status, authorization), 200);
  const framed = other.waitForEvent("console", { timeout: 3000 }).catch(() => undefined);
  const shown = await other.evaluate(async (url) => {
    const frame = document.createElement("iframe");
    frame.src = url;
    const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
    document.body.append(frame);
    await loaded;
    try {
      return frame.contentDocument === null ? "another origin" : frame.contentDocument.title;
    } catch {
      return "another origin";
    }
  }, gateway.url);
  const refused = await framed;
  ok(shown === "another origin" && /frame|refused/i.test(refused?.text() ?? "refused"), `${shown} ${refused?.text()}`);
  const frames = other.frames().map((frame) => frame.url());
  ok(!frames.slice(1).some((url) => url.startsWith(gateway.url)), frames.join());
  await other.close();
  const foreign = await open();
  const reply = await foreign.goto(`http://foreign.test:${new URL(gateway.url).port}/`);
  same(reply.status(), 403);
  await foreign.context().close();
  pages.close();
});

await check("policy has refused nothing and nothing has failed", () => same(page.problems, []));

await check("without its token the page leads to the sign-in", async () => {
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  await signIn(page, PERSON);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
});

await check("a token sees what its role allows, and nothing after it was revoked", async () => {
  const secured = await startGateway("revoked", ["--events", "memory"]);
  const openAs = async (token) => {
    const signed = await open();
    await signed.goto(`${secured.url}/`);
    await signIn(signed, token);
    return signed;
  };
  const ada = await openAs(PERSON);
  await tab(ada, "backends");
  await ada.locator(".card", { has: ada.locator("h2", { hasText: "fixture" }) }).getByText("running").waitFor();
  await call(secured.url, "fixture__list_projects", {}, PERSON);
  const bob = await openAs("token-of-bob-16-chars");
  await bob.getByText("Your role does not have `gateway_status`").waitFor();
  await tab(bob, "tools");
  await bob.getByText("1 of 1 tools", { exact: false }).or(bob.getByText(/^\d of \d tools/)).waitFor();
  ok(!(await bob.content()).includes("hostile"));
  await tab(bob, "activity");
  await bob.locator(".empty, .row").first().waitFor();
  ok(!(await bob.locator("main").innerText()).includes("ada"));
  await tab(ada, "connect");
  await ada.getByText('"mcpServers"').first().waitFor();
  const links = await ada.locator("a.button").evaluateAll((all) => all.map((link) => decodeURIComponent(link.href)));
  ok(links.some((link) => link.startsWith("vscode:mcp/install?") && link.includes("Bearer ${input:token}") && link.includes('"password":true')), String(links));
  ok(links.some((link) => atob(/config=([^&]+)/.exec(link)?.[1] ?? "").includes("Bearer ${env:MCP_TOKEN}")), String(links));
  ok(!(await ada.content()).includes(PERSON));
  await tab(bob, "configuration");
  await bob.getByText("Your role does not have `events:all`").waitFor();
  await tab(ada, "tools/fixture/fixture__list_projects");
  await ada.getByText(/boss, reader|reader, boss/).waitFor();
  writeFileSync(join(folder, "revoked"), "bob token-of-bob-16-chars\n");
  await ada.getByRole("heading", { name: "Sign in", exact: true }).waitFor();
  for (const signed of [ada, bob]) {
    same(signed.problems, []);
    await signed.context().close();
  }
});

await check("a server alone has the small page", async () => {
  const alone = await start(SERVER, []);
  const small = await open();
  await small.goto(`${alone.url}/`);
  await small.locator("nav").waitFor();
  same(await small.locator("nav a").allInnerTexts(), ["Status", "Tools", "Try", "Connect"]);
  same(await small.getByRole("button", { name: "Sign out" }).count(), 0);
  await small.screenshot({ path: join(shots, "server.png") });
  await tab(small, "connect");
  const host = small.locator(".card", { has: small.locator("h2", { hasText: "Claude Code" }) });
  await host.getByText('"mcpServers"').waitFor();
  same(await small.getByText("has called").count(), 0);
  await callAs(alone.url, "claude-code", "list_projects");
  await host.getByText("has called").waitFor();
  await tab(small, "tools");
  const shown = await small.getByText(/tools, about [\d,]+ tokens/).innerText();
  const metrics = await (await fetch(`${alone.url}/metrics`)).text();
  same(/about ([\d,]+) tokens/.exec(shown)[1].replace(",", ""), /^mcp_listed_tokens (\d+)/m.exec(metrics)[1]);
  await tab(small, "try/echo");
  await small.getByRole("button", { name: "As JSON" }).click();
  await small.getByLabel("Arguments").last().fill('{"value": "hello"}');
  await small.getByRole("button", { name: "Call", exact: true }).click();
  await small.getByText("Done", { exact: true }).waitFor();
  same([await serious(small), small.problems], [[], []]);
  await tab(small, "try/slow_compute");
  await small.getByLabel("seconds", { exact: false }).first().fill("2");
  await small.getByRole("button", { name: "Call", exact: true }).click();
  await small.getByText("It is a task").waitFor();
  await small.screenshot({ path: join(shots, "task.png") });
  await small.getByText("slow_compute: 2 s").waitFor();
  await small.getByText("It was a task").waitFor();
  await small.getByLabel("seconds", { exact: false }).first().fill("600");
  await small.getByRole("button", { name: "Call", exact: true }).click();
  await small.getByText("It is a task").waitFor();
  const id = await small.locator("#result [role=status] code").innerText();
  await small.getByRole("button", { name: "Cancel" }).click();
  await small.getByText("You have cancelled the call.").waitFor();
  const state = await until("the end of the task", async () => {
    const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } } };
    const headers = { "content-type": "application/json", "mcp-protocol-version": "2026-07-28", "mcp-method": "tasks/get", "mcp-name": id };
    const body = { jsonrpc: "2.0", id: 1, method: "tasks/get", params: { taskId: id, _meta: meta } };
    const { result } = await (await fetch(`${alone.url}/mcp`, { method: "POST", headers, body: JSON.stringify(body) })).json();
    return result?.status === "working" ? undefined : (result ?? { status: "not of this caller" });
  });
  same(state.status, "cancelled");
  await tab(small, "try/confirm_delete");
  await small.getByLabel("filename", { exact: false }).first().fill("a.txt");
  await small.getByRole("button", { name: "Call", exact: true }).click();
  await small.getByRole("form", { name: "Question of the server" }).locator("select").selectOption("true");
  await small.getByRole("button", { name: "Answer" }).click();
  await small.getByText("a.txt is deleted.").waitFor();
  same([await serious(small), small.problems], [[], []]);
  await small.context().close();
});

if (process.env.MCP_TEST_DOCKER_HOST) {
  await check("Docker's own page lists containers with Diagnose", async () => {
    const docker = await start(join(dirname(SERVER), "docker-mcp-server"), ["--docker-host", process.env.MCP_TEST_DOCKER_HOST]);
    const small = await open();
    await small.goto(`${docker.url}/`);
    const list = small.locator(".card", { has: small.locator("h2", { hasText: "Containers" }) });
    await list.locator("table").or(list.getByText("There are none.")).waitFor();
    if (await list.locator("table").count()) {
      await list.getByText("Diagnose").first().click();
      ok((await small.getByLabel("container", { exact: false }).first().inputValue()) !== "");
    }
    same(small.problems, []);
    await small.context().close();
  });
}

await check("n8n's own page says which toolset lists executions", async () => {
  const api = createServer((_, response) => response.setHeader("content-type", "application/json").end('{"data":[],"nextCursor":null}'));
  api.listen(0, "127.0.0.1");
  await until("the API", () => api.address());
  const variables = { N8N_URL: `http://127.0.0.1:${api.address().port}`, N8N_API_KEY: "k" };
  const n8n = await start(join(dirname(SERVER), "n8n-mcp-server"), [], variables);
  const small = await open();
  await small.goto(`${n8n.url}/`);
  await small.getByText("--toolsets default,executions").waitFor();
  await small.context().close();
  api.close();
});

await check("--no-page leaves the help", async () => {
  const without = await start(SERVER, ["--no-page"]);
  const reply = await fetch(`${without.url}/`, { headers: { accept: "text/html" } });
  same([reply.status, reply.headers.get("content-type")], [404, "application/json"]);
});

await browser.close();
for (const child of children) child.kill();
await sleep(300);
rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
process.exit(0);
