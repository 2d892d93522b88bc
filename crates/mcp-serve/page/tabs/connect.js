// @ts-check
// Ready lines for the programs that use MCP servers.

import { data } from "../server.js";
import { Copy, foreign, html, useLoaded, useRef } from "../ui.js";

/** @param {string} name @param {string} view @param {string} url @param {boolean} needsToken */
function hosts(name, view, url, needsToken) {
  const remoteWith = (/** @type {string} */ token) => (needsToken ? { url, headers: { Authorization: `Bearer ${token}` } } : { url });
  const remote = remoteWith("YOUR_TOKEN");
  // VS Code asks for the token, and keeps it.
  const asked = { type: "http", ...remoteWith("${input:token}") };
  const inputs = needsToken ? [{ type: "promptString", id: "token", description: `Token of ${name}`, password: true }] : undefined;
  const json = (/** @type {unknown} */ value) => JSON.stringify(value, null, 2);
  const server = view ? `${name}-${view}` : name;
  const header = needsToken ? ` --header "Authorization: Bearer YOUR_TOKEN"` : "";
  const bytes = btoa(JSON.stringify(remote));
  const code = encodeURIComponent(JSON.stringify({ name: server, ...asked, inputs }));
  return [
    { host: "Claude Code", text: `claude mcp add --transport http ${server} ${url}${header}` },
    { host: "Claude Desktop", where: "claude_desktop_config.json", text: json({ mcpServers: { [server]: { command: name === "mcp-gateway" ? name : "mcp-gateway", args: ["bridge", url, ...(needsToken ? ["--token-file", "/path/to/token"] : [])] } } }) },
    { host: "Cursor", where: "~/.cursor/mcp.json", text: json({ mcpServers: { [server]: remote } }), link: `cursor://anysphere.cursor-deeplink/mcp/install?name=${encodeURIComponent(server)}&config=${encodeURIComponent(bytes)}` },
    { host: "VS Code", where: ".vscode/mcp.json", text: json({ inputs, servers: { [server]: asked } }), link: `vscode:mcp/install?${code}` },
    { host: "n8n", where: "node “MCP Client Tool”", text: `Endpoint: ${url}\nServer Transport: HTTP Streamable\nAuthentication: ${needsToken ? "Bearer Auth, with your token" : "None"}` },
    { host: "OpenHands", where: "config.toml", text: `[mcp]\nshttp_servers = [${needsToken ? `{ url = "${url}", api_key = "YOUR_TOKEN" }` : `"${url}"`}]` },
    { host: "curl", text: `curl ${url} -H 'Content-Type: application/json'${needsToken ? " -H 'Authorization: Bearer YOUR_TOKEN'" : ""} -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'` },
  ];
}

export function Connect(/** @type {any} */ { me, tick }) {
  const opened = useRef(new Date().toISOString());
  const seen = useRef(/** @type {any} */ (null));
  useLoaded(async (signal) => {
    if (!me.has_data || seen.current) return;
    const found = await data("events", { since: opened.current, most: 200 }, signal);
    seen.current = found.find?.((/** @type {any} */ event) => event.metadata?.duration_ms !== undefined && !event.metadata.client?.startsWith("page"));
  }, tick.events);
  const first = seen.current;
  const url = `${location.origin}/mcp${me.view ? `/${me.view}` : ""}`;
  return html`<section class="card wide"><h2>Address</h2><p><code>${url}</code> <${Copy} text=${url} /></p>
      ${me.needs_token && html`<p>Put a token of your own where it says <code>YOUR_TOKEN</code>: <code>${me.server.name} token add NAME</code> makes one.</p>`}
      ${me.has_data && html`<p role="status">${first
        ? html`<b class="good-text">First call seen:</b> <bdi>${foreign(first.metadata.tool_name ?? first.metadata.method)}</bdi> of <bdi>${foreign(first.metadata.client || first.metadata.principal || "a client")}</bdi>.`
        : html`<span class="muted">Waiting for the first call of a client …</span>`}</p>`}
    </section>
    <div class="cards">${hosts(me.server.name, me.view, url, me.needs_token).map(({ host, where, text, link }) => html`<section class="card" key=${host}>
      <h2>${host}</h2>${where && html`<p class="muted">${where}</p>`}
      <pre tabindex="0">${text}</pre>
      <div class="buttons"><${Copy} text=${text} />${link && html`<a class="button small" href=${link}>Add to ${host}</a>`}</div>
      ${link && me.needs_token && html`<p class="muted">${host === "Cursor" ? "Then put the token into the file." : "It asks for the token."}</p>`}
    </section>`)}</div>
    <p class="muted"><code>${me.server.name} connect HOST --http ${url}</code> writes the file of a host, after it has shown the change.</p>`;
}
