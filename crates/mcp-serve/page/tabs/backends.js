// @ts-check
// The backends: whether each can be called, and why not.

import { callTool } from "../server.js";
import { Badge, Empty, Failure, Loading, Table, count, foreign, html, milliseconds, useState } from "../ui.js";

/** @type {Record<string, string>} */
const KIND = { running: "good", starting: "warn" };
const ORDER = ["starting", "running", "stopped", "disabled"];

/** True for a backend that cannot be called, and was not switched off. */
const isIll = (backend) => backend.advice && backend.status !== "running";

/** Those that are ill come first. */
const rank = (backend) => (isIll(backend) ? -1 : ORDER.indexOf(backend.status));

export function Backends({ state }) {
  if (!state) return html`<${Loading} />`;
  const all = /** @type {[string, any][]} */ (Object.entries(state.backends));
  if (!all.length) {
    return html`<${Empty} title="There are no backends."><p>Add one to the file of <code>--config</code>, or start with <code>--backend</code>.</p><//>`;
  }
  all.sort(([a, one], [b, other]) => rank(one) - rank(other) || a.localeCompare(b));
  const log = state.event_log;
  return html`<div class="cards">${all.map(([key, backend]) => html`<${Backend} key=${key} name=${key} backend=${backend} may=${state.may} />`)}</div>
    ${state.not_offered?.length > 0 && html`<${Table} title="Not offered" head=${["Backend", "Item", "Reason"]}>
        ${state.not_offered.map((one) => html`<tr><td>${one.backend}</td><td><bdi>${foreign(one.item)}</bdi></td><td>${one.reason}</td></tr>`)}
      <//>`}
    ${state.replicas?.length > 1 && html`<${Table} title="Replicas" head=${["Replica", "State", "Address", "Version", "Up"]}>
        ${state.replicas.map((one) => html`<tr><td><code>${one.id}</code>${one.answers && " answers"}</td><td>${one.status.replace("_", " ")}</td>
          <td>${one.address}</td><td>${one.version}</td><td>${one.uptime_s === undefined ? "" : `${count(one.uptime_s)} s`}</td></tr>`)}
      <//>`}
    <p class="muted">Event log: ${log.status}, ${count(log.written)} written, ${count(log.dropped)} lost${log.reason ? ` – ${log.reason}` : ""}.
      Gateway ${state.gateway.version}.</p>`;
}

function Backend({ name, backend, may }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [note, setNote] = useState("");
  const restart = async () => {
    setNote("Restarting …");
    setError(null);
    try {
      const ask = async () => ({ action: confirm(`Restart ${name}? Calls that run there fail.`) ? "accept" : "decline", content: {} });
      const result = await callTool({ name: "gateway_restart" }, { backend: name }, { ask });
      setNote("");
      if (result.isError) throw new Error(result.content?.[0]?.text ?? "It was refused.");
    } catch (failed) {
      setNote("");
      setError(failed);
    }
  };
  const server = backend.server;
  /** @type {[string, any][]} */
  const facts = [
    ["Transport", backend.transport ?? "–"],
    ["Protocol", backend.protocol ?? "–"],
    ["Tools", count(backend.tool_count)],
    ["Calls", count(backend.calls)],
    ["Errors", count(backend.errors)],
    ["Median", milliseconds(backend.p50_ms)],
    ["99 %", milliseconds(backend.p99_ms)],
    ["Restarts", count(backend.restarts)],
  ];
  return html`<section class="card">
    <h2><bdi>${name}</bdi> <${Badge} kind=${isIll(backend) ? "bad" : KIND[backend.status] ?? ""}>${backend.status.replace("_", " ")}<//></h2>
    ${server?.name && html`<p class="muted one-line"><bdi>${foreign(server.title ?? server.name)}</bdi> ${foreign(server.version ?? "")}</p>`}
    ${backend.address && html`<p class="one-line"><code title=${backend.address}>${foreign(backend.address)}</code></p>`}
    ${backend.replicas && html`<p class="warning">${backend.replicas}</p>`}
    ${backend.last_error && html`<p class=${isIll(backend) ? "failure foreign" : "muted foreign"}>${foreign(backend.last_error)}</p>`}
    ${backend.next_try_s !== undefined && html`<p class="muted">Next try in ${backend.next_try_s} s.</p>`}
    ${backend.advice && html`<p class="warning">${backend.advice}</p>`}
    <dl class="facts">${facts.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
    ${backend.stderr?.length > 0 && html`<details><summary>Last ${backend.stderr.length} lines of stderr</summary>
      <pre tabindex="0">${backend.stderr.map(foreign).join("\n")}</pre></details>`}
    <${Failure} error=${error} />
    <div class="buttons">
      <a class="button small" href=${`#tools/${encodeURIComponent(name)}`}>Tools</a>
      <a class="button small" href=${`#activity/${encodeURIComponent(name)}`}>Activity</a>
      ${may.restart && backend.status !== "disabled" && html`<button class="small" onClick=${restart}>Restart</button>`}
      <span role="status" class="muted">${note}</span>
    </div>
  </section>`;
}
