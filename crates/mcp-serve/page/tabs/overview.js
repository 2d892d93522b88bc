// @ts-check
// The first screen: the last hour of calls, the tools that were called, and the backends that are not well.

import { data } from "../server.js";
import { Badge, Empty, Failure, Loading, Table, clock, count, foreign, html, milliseconds, useLoaded, useRef } from "../ui.js";
import { Again, isCall } from "./activity.js";
import { loadTools } from "./tools.js";

const HOUR = 3_600_000;
const MOST = 10_000;

/** The 95th percentile. @param {number[]} times */
function p95(times) {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(0.95 * sorted.length) - 1)];
}

export function Overview({ me, state, tick }) {
  const known = useRef(/** @type {any[]} */ ([]));
  const { value: calls, error } = useLoaded(async (signal) => {
    const from = new Date(Date.now() - HOUR).toISOString();
    const last = known.current.at(-1)?.timestamp;
    // Only what is new; the events of the last microsecond come again.
    const found = await data("events", { since: last > from ? last : from, most: MOST }, signal);
    const have = new Set(known.current.slice(-100).map((event) => event.trace_id + event.timestamp));
    const fresh = found.filter((event) => isCall(event) && !have.has(event.trace_id + event.timestamp));
    known.current = [...known.current, ...fresh].filter((event) => event.timestamp > from).slice(-MOST);
    return known.current;
  }, tick.events, 2000);
  const { value: listed } = useLoaded(() => loadTools(me), tick.lists);
  // The gateway knows what helps; one that was switched off needs nothing.
  const ill = Object.entries(state?.backends ?? {}).filter(([, backend]) => backend.advice);
  return html`${ill.length > 0 && html`<section class="card wide"><h2>Needs attention</h2>
      ${ill.map(([name, backend]) => html`<p key=${name} class="failure"><b><bdi>${name}</bdi></b> ${backend.status.replace("_", " ")}${backend.last_error && `: ${foreign(backend.last_error)}`}<br />${backend.advice}
        <br /><a href="#backends">Backends</a> · <a href=${`#activity/${encodeURIComponent(name)}`}>Activity</a></p>`)}</section>`}
    <${Failure} error=${error} />
    ${calls ? html`<${Hour} calls=${calls} /><${Failed} calls=${calls} /><${Called} calls=${calls} tools=${listed?.tools ?? []} />` : !error && html`<${Loading} />`}`;
}

/** @param {any} event */
const failed = (event) => event.status === "failure";

/** The calls of each minute. */
function Hour({ calls }) {
  const minutes = Array.from({ length: 60 }, () => [0, 0]);
  for (const call of calls) {
    const ago = Math.min(59, Math.max(0, Math.floor((Date.now() - Date.parse(call.timestamp)) / 60_000)));
    minutes[59 - ago][failed(call) ? 1 : 0] += 1;
  }
  const most = Math.max(1, ...minutes.map(([good, bad]) => good + bad));
  const errors = calls.filter(failed).length;
  const label = `${count(calls.length)} calls in the last hour, ${count(errors)} failed`;
  return html`<section class="card wide"><h2>The last hour</h2>
    <dl class="facts"><div><dt>Calls</dt><dd>${count(calls.length)}${calls.length === MOST && " newest"}</dd></div>
      <div><dt>Failed</dt><dd class=${errors ? "bad-text" : ""}>${count(errors)}</dd></div>
      <div><dt>95 %</dt><dd>${milliseconds(p95(calls.map((call) => call.metadata.duration_ms)))}</dd></div>
      <div><dt>Peak a minute</dt><dd>${calls.length ? count(most) : 0}</dd></div></dl>
    <svg class="hour" role="img" aria-label=${label} viewBox="0 0 600 60" preserveAspectRatio="none">
      ${minutes.map(([good, bad], at) => {
        const [tall, red] = [(58 * (good + bad)) / most, (58 * bad) / most];
        return html`<g key=${at}><title>${`${59 - at} minutes ago: ${good + bad} calls, ${bad} failed`}</title>
          <rect x=${at * 10} y=${60 - Math.max(tall, 1)} width="8" height=${Math.max(tall, 1)} class=${tall ? "good" : ""} />
          ${red > 0 && html`<rect x=${at * 10} y=${60 - red} width="8" height=${red} class="bad" />`}</g>`;
      })}
    </svg></section>`;
}

/** The tools that were called, those with failures first. */
function Called({ calls, tools }) {
  const costs = new Map(tools.map((tool) => [tool.definition.name, tool.tokens]));
  /** @type {Map<string, any[]>} */
  const rows = new Map();
  for (const call of calls) {
    const name = call.metadata.tool_name;
    if (!name) continue;
    if (!rows.has(name)) rows.set(name, []);
    rows.get(name)?.push(call);
  }
  const sorted = [...rows].map(([name, all]) => ({ name, all, bad: all.filter(failed).length }))
    .sort((one, other) => other.bad - one.bad || other.all.length - one.all.length).slice(0, 50);
  if (!sorted.length) return html`<${Empty} title="No tool was called in the last hour."><p><a href="#connect">Connect a client</a>, or <a href="#try">try a tool</a>.</p><//>`;
  return html`<${Table} title="Tools" head=${["Tool", "Calls", "Failed", "95 %", "Tokens"]}>
    ${sorted.map(({ name, all, bad }) => html`<tr key=${name}><td><a href=${`#tools/*/${encodeURIComponent(name)}`}><bdi>${foreign(name)}</bdi></a></td>
      <td class="number">${count(all.length)}</td><td class=${bad ? "number bad-text" : "number"}>${count(bad)}</td>
      <td class="number">${milliseconds(p95(all.map((call) => call.metadata.duration_ms)))}</td>
      <td class="number">${costs.has(name) ? count(costs.get(name)) : "–"}</td></tr>`)}<//>`;
}

/** The newest calls that failed, each with its reason. */
function Failed({ calls }) {
  const newest = calls.filter(failed).slice(-10).reverse();
  return newest.length > 0 && html`<${Table} title="Failed" head=${["Time", "Tool", "Reason", ""]}>
    ${newest.map(({ timestamp, trace_id, metadata }) => html`<tr key=${timestamp + trace_id}><td class="number">${clock(timestamp)}</td>
      <td><bdi>${foreign(metadata.tool_name ?? metadata.item ?? metadata.method)}</bdi></td>
      <td><${Badge} kind="bad">${metadata.kind ?? metadata.outcome}<//> <bdi>${foreign(metadata.error ?? metadata.denial ?? "")}</bdi></td>
      <td>${metadata.tool_name && html`<${Again} of=${metadata} />`}</td></tr>`)}<//>`;
}
