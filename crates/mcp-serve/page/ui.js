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

/**
 * Text of a program, apart from the direction and the lines of what is around it, and with its invisible characters
 * shown.
 * @param {string} text
 */
export const foreign = (text) =>
  String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);

/**
 * Loads something, again whenever one of `inputs` changes. What was loaded stays until then.
 * @template T
 * @param {() => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {{value: T | undefined, error: any, reload: () => void}}
 */
export function useLoaded(load, inputs) {
  const [loaded, setLoaded] = useState(/** @type {any} */ ({}));
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (value) => isCurrent && setLoaded({ value }),
      (error) => isCurrent && setLoaded((/** @type {any} */ before) => ({ value: before.value, error })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, round]);
  return { value: loaded.value, error: loaded.error, reload: () => setRound((before) => before + 1) };
}

/** @param {{error: any}} props */
export const Failure = ({ error }) => error && html`<p class="failure" role="alert">${reason(error)}</p>`;

/** @param {{title: string, children?: any}} props */
export const Empty = ({ title, children }) => html`<div class="empty"><p><b>${title}</b></p>${children}</div>`;

export const Loading = () => html`<p class="muted" aria-busy="true">Loading …</p>`;

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
