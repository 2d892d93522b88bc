// @ts-check
// The entry of this server for each program that uses MCP servers, as the command `connect` writes it.

import { data, post } from "../server.js";
import { Badge, Copy, Failure, Loading, foreign, html, useInterval, useLoaded, useRef } from "../ui.js";
import { isCall } from "./activity.js";

/** Addresses that add an entry in one click. @type {Record<string, (name: string, entry: any, needsToken: boolean) => string>} */
const LINKS = {
  cursor: (name, entry) => `cursor://anysphere.cursor-deeplink/mcp/install?name=${encodeURIComponent(name)}&config=${encodeURIComponent(btoa(JSON.stringify(entry)))}`,
  // VS Code asks for the token, and keeps it.
  vscode: (name, entry, needsToken) => `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name, ...entry, ...(needsToken && {
    headers: { Authorization: "Bearer ${input:token}" },
    inputs: [{ type: "promptString", id: "token", description: `Token of ${name}`, password: true }],
  }) }))}`,
};

/** The letters and digits of a client's name. @param {string} name */
const letters = (name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");

export function Connect({ me, tick }) {
  const url = `${location.origin}/mcp${me.view ? `/${me.view}` : ""}`;
  const name = me.server.name.replace(/^mcp-|-mcp-server$/g, "") + (me.view ? `-${me.view}` : "");
  const { value: hosts, error } = useLoaded((signal) => post("hosts", { name, url, needs_token: me.needs_token }, signal), 0);
  const seen = useRef(new Set());
  const { reload } = useLoaded(async (signal) => {
    const clients = me.has_data
      ? (await data("events", { since: "1h", most: 1000 }, signal)).map((event) => isCall(event) && event.metadata.client)
      : (await post("me", {}, signal)).clients;
    for (const client of clients) if (client) seen.current.add(letters(client));
    // The name of a set that has grown, so that it is drawn.
    return seen.current.size;
  }, tick.events, 2000);
  // A server alone has no stream of changes.
  useInterval(() => me.has_data || reload(), 5000);
  const called = (client) => [...seen.current].some((name) => name.includes(client));
  return html`<section class="card wide"><h2>Address</h2><p><code>${url}</code> <${Copy} text=${url} /></p>
      ${me.needs_token && html`<p>The entries take the token from the variable <code>MCP_TOKEN</code> of the host: <code>${me.server.name} token add NAME</code> makes one.</p>`}
      <p class="muted"><code>${me.server.name} connect HOST --http ${url}</code> writes an entry, after it has shown the change.</p>
    </section>
    <${Failure} error=${error} />
    ${!hosts && !error && html`<${Loading} />`}
    <div class="cards">${(hosts ?? []).map((host) => html`<section class="card" key=${host.id}>
      <h2>${host.name} ${called(host.client) && html`<${Badge} kind="good">✓ has called<//>`}</h2>
      <p class="muted">${host.file ?? "a node of a workflow"}</p>
      ${host.text && html`<pre tabindex="0">${host.text}</pre>`}
      ${host.notes?.map((note) => html`<p class="warning">${foreign(note)}</p>`)}
      <div class="buttons">${host.text && html`<${Copy} text=${host.text} />`}${LINKS[host.id] && html`<a class="button small" href=${LINKS[host.id](name, host.entry, me.needs_token)}>Add to ${host.name}</a>`}</div>
      <p class="muted">Then: ${host.after}.</p>
    </section>`)}</div>`;
}
