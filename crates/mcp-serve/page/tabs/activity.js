// @ts-check
// The event log, live, and one trace as a waterfall.

import { data } from "../server.js";
import { Badge, Empty, Failure, List, Loading, clock, count, foreign, html, milliseconds, repeated, useEffect, useLoaded, useRef, useState } from "../ui.js";

const FIRST = 1000;
const MOST = 10_000;
/** @type {Record<string, string>} */
const KIND = { success: "good", failure: "bad", pending: "warn" };

/** What an event is about. @param {any} event */
const subject = (event) => {
  const facts = event.metadata ?? {};
  return facts.tool_name ?? [facts.method, facts.item].filter(Boolean).join(" ") ?? "";
};

/** @param {any} event */
const id = (event) => `${event.timestamp} ${event.trace_id} ${event.event_type} ${subject(event)}`;

/** What the search reads, of each event once. @type {WeakMap<any, string>} */
const texts = new WeakMap();

/** @param {any} event */
function textOf(event) {
  const known = texts.get(event);
  if (known !== undefined) return known;
  const text = JSON.stringify(event).toLowerCase();
  texts.set(event, text);
  return text;
}

export function Activity(/** @type {any} */ { tick, where, go }) {
  const [filters, setFilters] = useState({ event_type: "", status: "", since: "", trace_id: "", replica: "" });
  const [text, setText] = useState("");
  const [errorsFirst, setErrorsFirst] = useState(false);
  const [most, setMost] = useState(FIRST);
  const [events, setEvents] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isHeld, setHeld] = useState(false);
  const [backend, chosen] = where;
  const newest = useRef(/** @type {any[]} */ ([]));
  const asked = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
  const shape = JSON.stringify([asked, most]);
  const last = useRef("");
  const loader = useRef(/** @type {any} */ (null));
  useEffect(() => {
    let isSame = false;
    const task = async (/** @type {AbortSignal} */ signal) => {
      // Only what is new; those of the last microsecond come again.
      const since = isSame && newest.current.length ? { since: newest.current[0].timestamp } : {};
      try {
        const found = await data("events", { ...asked, most, ...since }, signal);
        if (signal.aborted) return;
        const known = new Set(isSame ? newest.current.map(id) : []);
        const fresh = found.reverse().filter((/** @type {any} */ event) => !known.has(id(event)));
        newest.current = isSame ? [...fresh, ...newest.current].slice(0, most) : fresh;
        isSame = true;
        setEvents(newest.current);
        setError(null);
      } catch (failed) {
        if (!signal.aborted) setError(failed);
      }
    };
    loader.current = repeated(task, 0);
    return loader.current.stop;
  }, [shape]);
  useEffect(() => {
    if (isHeld && last.current === shape) return;
    last.current = shape;
    loader.current.ask();
  }, [shape, tick.events, isHeld]);
  if (!events) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = events.filter((event) => {
    if (backend && backend !== "*" && event.metadata?.backend !== backend) return false;
    return words.every((word) => textOf(event).includes(word));
  });
  if (errorsFirst) shown = [...shown.filter((event) => event.status === "failure"), ...shown.filter((event) => event.status !== "failure")];
  const types = [...new Set(events.map((event) => event.event_type))].sort();
  const backends = [...new Set(events.map((event) => event.metadata?.backend).filter(Boolean))].sort();
  const replicas = [...new Set([...events.map((event) => event.replica), filters.replica].filter(Boolean))].sort();
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setFilters({ ...filters, [name]: event.target.value });
  const event = shown.find((one) => id(one) === chosen);
  return html`<div class="filters" role="search">
      <input type="search" aria-label="Search the events" placeholder="Search" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <select aria-label="Backend" value=${backend ?? "*"} onChange=${(/** @type {any} */ event) => go("activity", event.target.value)}>
        <option value="*">All backends</option>${[...new Set([...backends, ...(backend && backend !== "*" ? [backend] : [])])].map((one) => html`<option value=${one}>${one}</option>`)}</select>
      <select aria-label="Type" value=${filters.event_type} onChange=${set("event_type")}><option value="">All types</option>
        ${[...new Set([...types, ...(filters.event_type ? [filters.event_type] : [])])].map((one) => html`<option value=${one}>${one.replace("gateway.", "")}</option>`)}</select>
      <select aria-label="Outcome" value=${filters.status} onChange=${set("status")}><option value="">All outcomes</option>
        <option value="failure">failure</option><option value="success">success</option><option value="pending">pending</option></select>
      <select aria-label="Since" value=${filters.since} onChange=${set("since")}><option value="">All times</option>
        <option value="5m">5 minutes</option><option value="1h">1 hour</option><option value="24h">1 day</option><option value="7d">7 days</option></select>
      ${replicas.length > 1 && html`<select aria-label="Replica" value=${filters.replica} onChange=${set("replica")}><option value="">All replicas</option>
        ${replicas.map((one) => html`<option value=${one}>${one}</option>`)}</select>`}
      <input aria-label="Trace" placeholder="Trace" value=${filters.trace_id} onChange=${set("trace_id")} spellcheck="false" size="12" />
      <label class="check"><input type="checkbox" checked=${errorsFirst} onChange=${() => setErrorsFirst(!errorsFirst)} /> Errors first</label>
      <button class="small" onClick=${() => setHeld(!isHeld)} aria-pressed=${isHeld}>${isHeld ? "Go on" : "Pause"}</button>
      <span class="muted" role="status">${count(shown.length)} events${isHeld ? ", paused" : ""}</span>
    </div>
    <${Failure} error=${error} />
    ${!shown.length ? html`<${Empty} title=${events.length ? "No event matches." : "Nothing has happened yet."}><p>Calls of clients appear here at once.</p><//>`
      : html`<div class="split">
        <div class="column"><${List} rows=${shown} height=${46} label="Events" id=${id} chosen=${chosen}
          choose=${(/** @type {any} */ one) => go("activity", backend ?? "*", id(one))} row=${row} />
          ${events.length === most && most < MOST && html`<div class="buttons"><button class="small" onClick=${() => setMost(MOST)}>Load up to ${count(MOST)}</button></div>`}</div>
        ${event ? html`<${Detail} key=${event.trace_id} event=${event} tick=${tick} />` : html`<${Empty} title="Choose an event." />`}
      </div>`}`;
}

/** @param {any} event */
function row(event) {
  const facts = event.metadata ?? {};
  const who = [facts.principal, facts.client].filter(Boolean).join(" · ");
  return html`<span class="muted number">${clock(event.timestamp)}</span>
    <span class="grow"><b><bdi>${foreign(subject(event) || event.event_type.replace("gateway.", ""))}</bdi></b><br />
      <span class="muted"><bdi>${foreign([subject(event) ? event.event_type.replace("gateway.", "") : "", facts.backend, event.replica, who].filter(Boolean).join(" · "))}</bdi></span></span>
    <${Badge} kind=${KIND[event.status]}>${facts.outcome ?? event.status}<//>
    <span class="muted number took">${facts.duration_ms === undefined ? "" : milliseconds(facts.duration_ms)}</span>`;
}

function Detail(/** @type {any} */ { event, tick }) {
  const { value, error } = useLoaded((signal) => data("events", { trace_id: event.trace_id, most: 500 }, signal), tick.events, 2000);
  return html`<article class="detail" aria-label="Event">
    <h2><bdi>${foreign(subject(event) || event.event_type)}</bdi> <${Badge} kind=${KIND[event.status]}>${event.status}<//></h2>
    <p class="muted">${new Date(event.timestamp).toLocaleString("en-GB")} · trace <code>${event.trace_id}</code>${event.replica && html` · replica <code>${event.replica}</code>`}</p>
    <h3>Trace</h3>
    <${Failure} error=${error} />
    ${value ? html`<${Waterfall} events=${value} />` : html`<${Loading} />`}
    <h3>Facts</h3>
    <pre tabindex="0">${foreign(JSON.stringify(event.metadata, null, 2))}</pre>
  </article>`;
}

/** @param {{events: any[]}} props */
function Waterfall({ events }) {
  const spans = events.map((event) => {
    const end = Date.parse(event.timestamp) + Number(`0.${event.timestamp.split(".")[1]?.slice(3, 6) ?? 0}`);
    const duration = event.metadata?.duration_ms ?? 0;
    return { event, start: end - duration, end, duration };
  }).sort((one, other) => one.start - other.start);
  const from = Math.min(...spans.map((span) => span.start));
  const all = Math.max(1, Math.max(...spans.map((span) => span.end)) - from);
  return html`<ol class="waterfall">${spans.map(({ event, start, duration }) => html`<li key=${id(event)}>
    <span class="name"><bdi>${foreign(subject(event) || event.event_type.replace("gateway.", ""))}</bdi></span>
    <span class="track"><span class=${`bar ${KIND[event.status]}`} style=${{ left: `${Math.min(99, (100 * (start - from)) / all)}%`, width: `${Math.max(1, (100 * duration) / all)}%` }}></span></span>
    <span class="number muted">${event.metadata?.duration_ms === undefined ? "" : milliseconds(duration)}</span></li>`)}</ol>`;
}
