// @ts-check
// What the tabs share: numbers and times for people, states without content, lists that draw only what is seen.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

export { html, useEffect, useRef, useState };
export { render } from "./vendor/preact.js";

/** @param {unknown} error */
export const reason = (error) => (error instanceof Error ? error.message : String(error));

/** @param {number | undefined | null} value */
export const milliseconds = (value) => {
  if (value === undefined || value === null) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`;
};

/** @param {number} value */
export const count = (value) => value.toLocaleString("en");

/** @param {string} time */
export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

/** The invisible characters of `upstream::text`, and emoji whose variation may stay. */
const INVISIBLE = new RegExp(String.raw`(\p{Extended_Pictographic}\ufe0f)|[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5`
  + String.raw`\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb`
  + String.raw`\u{1d173}-\u{1d17a}\u{e0000}-\u{e01ef}]`, "gu");

/**
 * Text of a program, with its invisible characters shown.
 * @param {unknown} text
 */
export const foreign = (text) =>
  String(text).replace(INVISIBLE, (found, emoji) => emoji ?? `\\u{${found.codePointAt(0)?.toString(16)}}`);

/**
 * Runs `task` when it is asked to: one run at a time, `pause` milliseconds apart, none while the page is hidden. What
 * is asked meanwhile is one run afterwards.
 * @param {(signal: AbortSignal) => Promise<void>} task
 * @param {number} pause
 */
export function repeated(task, pause) {
  const stop = new AbortController();
  let isAsked = false;
  let isBusy = false;
  const run = async () => {
    if (isBusy || !isAsked || document.hidden || stop.signal.aborted) return;
    isBusy = true;
    isAsked = false;
    await Promise.all([task(stop.signal), new Promise((resolve) => setTimeout(resolve, pause))]);
    isBusy = false;
    run();
  };
  const ask = () => {
    isAsked = true;
    run();
  };
  document.addEventListener("visibilitychange", run, { signal: stop.signal });
  return { ask, stop: () => stop.abort() };
}

/**
 * Loads something, again when `tick` changes. What was loaded stays until then.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown} tick
 * @param {number} [pause] The least time between two requests, in milliseconds.
 * @returns {{value: T | undefined, error: any, reload: () => void}}
 */
export function useLoaded(load, tick, pause = 0) {
  const [loaded, setLoaded] = useState(/** @type {any} */ ({}));
  const newest = useRef(load);
  newest.current = load;
  const loader = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const task = async (/** @type {AbortSignal} */ signal) => {
      const answer = await newest.current(signal).then((value) => ({ value }), (error) => ({ error }));
      if (!signal.aborted) setLoaded((before) => ("error" in answer ? { ...before, ...answer } : answer));
    };
    loader.current = repeated(task, pause);
    return loader.current.stop;
  }, []);
  useEffect(() => loader.current.ask(), [tick]);
  return { value: loaded.value, error: loaded.error, reload: () => loader.current.ask() };
}

/**
 * Calls `run` again and again, `pause` milliseconds apart.
 * @param {() => void} run
 * @param {number} pause
 */
export function useInterval(run, pause) {
  const newest = useRef(run);
  newest.current = run;
  useEffect(() => {
    const timer = setInterval(() => newest.current(), pause);
    return () => clearInterval(timer);
  }, []);
}

/**
 * Two buttons that decide something; the first one lets nothing happen. They wait a second after `above`, the content
 * before them, has changed: no click meets a card that has just moved under the pointer.
 * @param {{above: string, approve: () => void, refuse: () => void, children?: any}} props
 */
export function Decision({ above, approve, refuse, children }) {
  const moved = useRef({ above: "", at: -1 });
  const [, redraw] = useState(0);
  if (moved.current.at < 0 || moved.current.above !== above) moved.current = { above, at: performance.now() };
  useEffect(() => {
    const timer = setTimeout(() => redraw((before) => before + 1), 1010);
    return () => clearTimeout(timer);
  }, [above]);
  const isHeld = performance.now() - moved.current.at < 1000;
  return html`<div class="buttons"><button disabled=${isHeld} onClick=${refuse}>Refuse</button>
    <button disabled=${isHeld} onClick=${approve}>Approve</button>${children}</div>`;
}

/** @param {{error: any}} props */
export const Failure = ({ error }) => error && html`<p class="failure" role="alert">${foreign(reason(error))}</p>`;

/** @param {{title: string, children?: any}} props */
export const Empty = ({ title, children }) => html`<div class="empty"><p><b>${title}</b></p>${children}</div>`;

export const Loading = () => html`<p class="muted" aria-busy="true">Loading …</p>`;

/** The place of something that is not loaded yet, or cannot be. @param {{error: any}} props */
export const Missing = ({ error }) => (error ? html`<${Failure} error=${error} />` : html`<${Loading} />`);

/** A card with a table. @param {{title: string, head: string[], children?: any}} props */
export const Table = ({ title, head, children }) => html`<section class="card wide"><h2>${title}</h2><div class="scroll"><table>
  <thead><tr>${head.map((name) => html`<th>${name}</th>`)}</tr></thead><tbody>${children}</tbody></table></div></section>`;

/** @param {{kind: string, children?: any}} props */
export const Badge = ({ kind, children }) => html`<span class=${`badge ${kind}`}>${children ?? kind}</span>`;

/** @param {{text: string, label?: string}} props */
export function Copy({ text, label = "Copy" }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="small" onClick=${copy}>${isDone ? "Copied" : label}</button>`;
}

/**
 * A list of rows of one height, of which only those in view are drawn: 10,000 rows cost as much as 30. Arrow keys,
 * Home and End choose a row.
 * @param {{rows: any[], height: number, row: (item: any) => any, id: (item: any) => string, chosen?: string,
 *   choose: (item: any) => void, label: string}} props
 */
export function List({ rows, height, row, id, chosen, choose, label }) {
  const box = useRef(/** @type {any} */ (null));
  const [seen, setSeen] = useState([0, 40]);
  const measure = () => {
    const first = Math.max(0, Math.floor(box.current.scrollTop / height) - 8);
    const last = first + Math.ceil(box.current.clientHeight / height) + 16;
    setSeen((/** @type {number[]} */ before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(measure, [rows.length]);
  const at = rows.findIndex((item) => id(item) === chosen);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const page = Math.max(1, Math.floor(box.current.clientHeight / height) - 1);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length };
    if (!(event.key in moves) || !rows.length) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, moves[event.key]));
    choose(rows[next]);
    const top = next * height;
    const view = box.current;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + height > view.scrollTop + view.clientHeight) view.scrollTop = top + height - view.clientHeight;
  };
  const shown = rows.slice(seen[0], seen[1]);
  return html`<div class="list" ref=${box} onScroll=${measure} onKeyDown=${onKey} tabindex="0" role="listbox"
      aria-label=${label} aria-activedescendant=${at >= seen[0] && at < seen[1] ? `row-${at}` : undefined}>
    <div class="rows" role="presentation" style=${{ height: `${rows.length * height}px` }}>
      ${shown.map((item, index) => {
        const place = seen[0] + index;
        const is = place === at;
        return html`<div key=${id(item)} id=${`row-${place}`} class=${is ? "row chosen" : "row"} role="option"
          aria-selected=${is} aria-setsize=${rows.length} aria-posinset=${place + 1}
          style=${{ height: `${height}px`, transform: `translateY(${place * height}px)` }}
          onClick=${() => choose(item)}>${row(item)}</div>`;
      })}
    </div>
  </div>`;
}
