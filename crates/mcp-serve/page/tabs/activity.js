// @ts-check
// The event log, live, and one trace as a waterfall.

import { data } from "../server.js";
import { Badge, Empty, Failure, List, Loading, Missing, clock, count, foreign, html, milliseconds, repeated, useEffect, useLoaded, useRef, useState } from "../ui.js";

const FIRST = 1000;
const MOST = 10_000;
/** Equal failures within so many rows are one row. */
const NEAR = 8;
/** The time before a changed filter is asked for, while a person may type, in milliseconds. */
const TYPED = 250;
/** @type {Record<string, string>} */
const KIND = { success: "good", failure: "bad", pending: "warn" };
const OUTCOMES = ["ok", "denied", "failed", "timed_out", "cancelled"];

/** What an event is about. @param {any} event */
const subject = (event) => {
  const facts = event.metadata ?? {};
  return facts.tool_name ?? [facts.method, facts.item].filter(Boolean).join(" ") ?? "";
};

/** True for the end of a request, whatever it asked for. @param {any} event */
export const isCall = (event) => event.metadata?.duration_ms !== undefined;

/** Leads to a form with the recorded arguments of a call; the log has only the types of the others. */
export function Again({ of }) {
  const all = Object.entries(of.arguments ?? {});
  const kept = all.filter(([, value]) => value?.value !== undefined);
  const filled = Object.fromEntries(kept.map(([name, { value }]) => [name, value]));
  return html`<a class="button small" href=${`#try/${[of.tool_name, JSON.stringify(filled)].map(encodeURIComponent).join("/")}`}>Try again</a>
    ${kept.length < all.length && html` <span class="muted">with ${kept.length} of ${all.length} arguments: the log keeps those in <code>record</code></span>`}`;
}

/** Why it ended so: the rule that has denied it, the reason or the error, and the rule that has allowed it. @param {any} event */
const why = (event) => {
  const facts = event.metadata ?? {};
  return [facts.denial ?? facts.reason ?? facts.error, facts.allowed_by].filter(Boolean).join(" · ");
};

/** The recorded values of its arguments. @param {any} event */
const values = (event) => Object.entries(event.metadata?.arguments ?? {})
  .filter(([, argument]) => argument.value !== undefined).map(([name, argument]) => `${name}=${argument.value}`).join(" ");

/** What {@link alike} returns, of each event once. @type {WeakMap<any, string>} */
const kinds = new WeakMap();

/** Equal for events that differ in their time only. @param {any} event */
function alike(event) {
  const facts = event.metadata ?? {};
  const kind = kinds.get(event) ?? JSON.stringify([event.event_type, subject(event), values(event), facts.outcome, facts.principal, facts.backend, why(event)]);
  kinds.set(event, kind);
  return kind;
}

/** The number of events that a row stands for, if it is not one. @type {WeakMap<any, number>} */
const times = new WeakMap();

/** Makes one row of events near each other that failed in the same way. @param {any[]} events */
function folded(events) {
  const rows = /** @type {any[]} */ ([]);
  for (const event of events) {
    const number = event.metadata?.count ?? 1;
    const near = event.status === "failure" ? rows.slice(-NEAR) : [];
    const same = near.find((row) => row.status === "failure" && alike(row) === alike(event));
    if (same) times.set(same, (times.get(same) ?? 1) + number);
    else {
      times.set(event, number);
      rows.push(event);
    }
  }
  return rows;
}

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

export function Activity({ tick, where, go }) {
  const [filters, setFilters] = useState(/** @type {Record<string, string>} */ ({}));
  const [text, setText] = useState("");
  const [errorsFirst, setErrorsFirst] = useState(false);
  const [most, setMost] = useState(FIRST);
  const [events, setEvents] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isHeld, setHeld] = useState(false);
  const [backend, chosen] = where;
  const newest = useRef(/** @type {any[]} */ ([]));
  const of = backend && backend !== "*" ? backend : "";
  const asked = Object.fromEntries(Object.entries({ ...filters, backend: of }).filter(([name, value]) => value && (name !== "trace_id" || value.length >= 32)));
  const shape = JSON.stringify([asked, most]);
  const last = useRef("");
  const loader = useRef(/** @type {any} */ (null));
  useEffect(() => {
    let isSame = false;
    const task = async (/** @type {AbortSignal} */ signal) => {
      // Only what is new; those of the last microsecond come again.
      const latest = isSame ? newest.current[0]?.timestamp : "";
      try {
        const found = await data("events", { ...asked, most, ...(latest && { since: latest }) }, signal);
        // The number of equal denials grows until their minute is over.
        const again = latest ? await data("events", { status: "failure", ...asked, most, since: `${latest.slice(0, 17)}00Z` }, signal) : [];
        if (signal.aborted) return;
        const counted = new Map(again.map((event) => [id(event), event]));
        const before = isSame ? newest.current.map((event) => counted.get(id(event)) ?? event) : [];
        const known = new Set(before.map(id));
        const fresh = found.reverse().filter((event) => !known.has(id(event)));
        newest.current = [...fresh, ...before].slice(0, most);
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
    setTimeout(() => loader.current.ask(), last.current && last.current !== shape ? TYPED : 0);
    last.current = shape;
  }, [shape, tick.events, isHeld]);
  if (!events) return html`<${Missing} error=${error} />`;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = events.filter((event) => words.every((word) => textOf(event).includes(word)));
  let shown = folded(found);
  if (errorsFirst) shown = [...shown.filter((event) => event.status === "failure"), ...shown.filter((event) => event.status !== "failure")];
  const set = (name) => (event) => setFilters({ ...filters, [name]: event.target.value });
  /** The values of `read` in the events, and `chosen`. @param {(event: any) => any} read @param {string} [chosen] */
  const seen = (read, chosen) => [...new Set([...events.map(read), chosen].filter(Boolean))].sort();
  /** A choice of a filter. @param {string} label @param {string} all @param {string} name @param {string[]} options */
  const choice = (label, all, name, options) => html`<select aria-label=${label} value=${filters[name] ?? ""} onChange=${set(name)}>
    <option value="">${all}</option>${options.map((one) => html`<option value=${one}>${one.replace("gateway.", "").replace("_", " ")}</option>`)}</select>`;
  /** A text of a filter. @param {string} label @param {string} name */
  const field = (label, name) => html`<input aria-label=${label} placeholder=${label} value=${filters[name] ?? ""} onInput=${set(name)} spellcheck="false" size="10" />`;
  const replicas = seen((event) => event.replica, filters.replica);
  const event = found.find((one) => id(one) === chosen);
  return html`<div class="filters" role="search">
      <input type="search" aria-label="Search the events" placeholder="Search" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Backend" value=${backend ?? "*"} onChange=${(event) => go("activity", event.target.value)}>
        <option value="*">All backends</option>${seen((event) => event.metadata?.backend, of).map((one) => html`<option value=${one}>${one}</option>`)}</select>
      ${choice("Type", "All types", "event_type", seen((event) => event.event_type, filters.event_type))}
      ${choice("Status", "All statuses", "status", ["failure", "success", "pending"])}
      ${choice("Outcome", "All outcomes", "outcome", OUTCOMES)}
      ${choice("Kind", "All kinds", "kind", seen((event) => event.metadata?.kind, filters.kind))}
      ${choice("Principal", "All principals", "principal", seen((event) => event.metadata?.principal, filters.principal))}
      ${choice("View", "All views", "view", seen((event) => event.metadata?.view, filters.view))}
      ${replicas.length > 1 && choice("Replica", "All replicas", "replica", replicas)}
      <select aria-label="Since" value=${filters.since ?? ""} onChange=${set("since")}><option value="">All times</option>
        <option value="5m">5 minutes</option><option value="1h">1 hour</option><option value="24h">1 day</option><option value="7d">7 days</option></select>
      ${field("Tool", "item")} ${field("About", "about")} ${field("Trace", "trace_id")}
      <label class="check"><input type="checkbox" checked=${errorsFirst} onChange=${() => setErrorsFirst(!errorsFirst)} /> Errors first</label>
      <button class="small" onClick=${() => setHeld(!isHeld)} aria-pressed=${isHeld}>${isHeld ? "Go on" : "Pause"}</button>
      <span class="muted" role="status">${count(found.length)} events${isHeld ? ", paused" : ""}</span>
    </div>
    <${Failure} error=${error} />
    ${!shown.length ? html`<${Empty} title=${events.length || Object.keys(asked).length ? "No event matches." : "Nothing has happened yet."}><p>Calls of clients appear here at once.</p><//>`
      : html`<div class="split">
        <div class="column"><${List} rows=${shown} height=${46} label="Events" id=${id} chosen=${chosen}
          choose=${(one) => go("activity", backend ?? "*", id(one))} row=${row} />
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
      <span class="muted"><bdi>${foreign([subject(event) ? event.event_type.replace("gateway.", "") : "", facts.tool_name ? "" : facts.backend, values(event), event.replica, who, why(event)].filter(Boolean).join(" · "))}</bdi></span></span>
    <${Badge} kind=${KIND[event.status]}>${facts.outcome ?? event.status}${(times.get(event) ?? 1) > 1 && ` × ${count(times.get(event) ?? 1)}`}<//>
    <span class="muted number took">${facts.duration_ms === undefined ? "" : milliseconds(facts.duration_ms)}</span>`;
}

function Detail({ event, tick }) {
  const { value, error } = useLoaded((signal) => data("events", { trace_id: event.trace_id, most: 500 }, signal), tick.events, 2000);
  return html`<article class="detail" aria-label="Event">
    <h2><bdi>${foreign(subject(event) || event.event_type)}</bdi> <${Badge} kind=${KIND[event.status]}>${event.metadata?.outcome ?? event.status}<//></h2>
    <p class="muted">${new Date(event.timestamp).toLocaleString("en-GB")} · trace <code>${event.trace_id}</code>${event.replica && html` · replica <code>${event.replica}</code>`}</p>
    ${why(event) && html`<p class=${event.status === "failure" ? "failure foreign" : "foreign"}>${event.metadata.kind && html`<b>${event.metadata.kind}</b> `}<bdi>${foreign(why(event))}</bdi></p>`}
    ${isCall(event) && event.metadata.tool_name && html`<div class="buttons"><${Again} of=${event.metadata} /></div>`}
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
