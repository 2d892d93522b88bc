// @ts-check
// A server alone: whether its service answers, and what is there.

import { callTool, post } from "../server.js";
import { Badge, Empty, Failure, Loading, foreign, html, useInterval, useLoaded } from "../ui.js";
import { loadTools } from "./tools.js";

/**
 * What a service has, by the tool that lists it: the list in its result, the columns, and what can be done with a row.
 * @type {Record<string, {title: string, list: string, columns: string[], action: string, tool: string, argument: string, id: string}>}
 */
const LISTS = {
  list_containers: { title: "Containers", list: "containers", columns: ["name", "image", "state", "health"], action: "Diagnose", tool: "diagnose_container", argument: "container", id: "name" },
  list_executions: { title: "Last executions", list: "executions", columns: ["execution_id", "workflow_name", "status", "failed_node", "error", "started_at"], action: "Explain", tool: "explain_execution", argument: "execution_id", id: "execution_id" },
  list_tasks: { title: "Tasks", list: "tasks", columns: ["task", "status", "created_at", "cost"], action: "Show", tool: "get_task_status", argument: "task_id", id: "task_id" },
};

export function Status({ me }) {
  const { value, error, reload } = useLoaded((signal) => post("me", {}, signal), 0);
  const { value: listed } = useLoaded(() => loadTools(me), 0);
  useInterval(reload, 5000);
  const now = value ?? me;
  const found = listed?.tools.filter((tool) => tool.definition.name in LISTS) ?? [];
  return html`<${Failure} error=${error} />
    <section class="card wide">
      <h2>${now.server.name} <${Badge} kind=${now.degraded ? "bad" : "good"}>${now.degraded ? "degraded" : "online"}<//></h2>
      <p>${now.server.description}</p>
      ${now.degraded && html`<p class="failure foreign">${now.degraded}</p>`}
    </section>
    ${!now.degraded && found.map((tool) => html`<${Items} key=${tool.definition.name} definition=${tool.definition} list=${LISTS[tool.definition.name]}
      can=${listed?.tools.some((other) => other.definition.name === LISTS[tool.definition.name].tool)} />`)}
    ${!now.degraded && listed && !found.length && html`<${Empty} title="The service answers.">
      ${now.server.name === "n8n-mcp-server" && html`<p>With <code>--toolsets default,executions</code> its last executions are here.</p>`}<p><a href="#try">Try a tool</a> or <a href="#connect">connect a client</a>.</p><//>`}`;
}

/** The newest items of a service. */
function Items({ definition, list, can }) {
  const all = "all" in (definition.inputSchema?.properties ?? {}) ? { all: true } : {};
  const { value, error, reload } = useLoaded(async () => {
    const result = await callTool(definition, all, { ask: async () => null });
    if (result.isError) throw new Error(result.content?.[0]?.text ?? "The list cannot be read.");
    return (result.structuredContent ?? JSON.parse(result.content[0].text))[list.list] ?? [];
  }, 0);
  const shown = value?.slice(0, 50) ?? [];
  const columns = list.columns.filter((column) => shown.some((item) => item[column] !== undefined && item[column] !== null));
  return html`<section class="card wide"><h2>${list.title} <button class="small" onClick=${reload}>Read again</button></h2>
    <${Failure} error=${error} />
    ${!value && !error && html`<${Loading} />`}
    ${value && !shown.length && html`<p class="muted">There are none.</p>`}
    ${shown.length > 0 && html`<div class="scroll"><table>
      <thead><tr>${columns.map((column) => html`<th>${column.replaceAll("_", " ")}</th>`)}<th></th></tr></thead>
      <tbody>${shown.map((item) => html`<tr key=${item[list.id]}>
        ${columns.map((column) => html`<td><bdi>${foreign(item[column] ?? "")}</bdi></td>`)}
        <td>${can && html`<a class="button small" href=${`#try/${list.tool}/${encodeURIComponent(JSON.stringify({ [list.argument]: String(item[list.id]) }))}`}>${list.action}</a>`}</td></tr>`)}</tbody>
    </table></div>`}
  </section>`;
}
