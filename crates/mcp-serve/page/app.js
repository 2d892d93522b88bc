// @ts-check
// The frame of the page: the sign-in, the tabs, and what all of them follow.

import { chooseView, follow, post, signIn, signOut, signedOut } from "./server.js";
import { Failure, html, reason, render, useEffect, useInterval, useLoaded, useRef, useState } from "./ui.js";
import { Overview } from "./tabs/overview.js";
import { Tools } from "./tabs/tools.js";
import { Try } from "./tabs/try.js";
import { Status } from "./tabs/status.js";
import { Backends } from "./tabs/backends.js";
import { Activity } from "./tabs/activity.js";
import { Approvals } from "./tabs/approvals.js";
import { Connect } from "./tabs/connect.js";
import { Configuration } from "./tabs/configuration.js";
import { data } from "./server.js";

/** The tabs of the gateway, and those of a server alone. */
const OF_GATEWAY = { Overview, Backends, Tools, Activity, Approvals, Try, Connect, Configuration };
const OF_SERVER = { Status, Tools, Try, Connect };

/** The part of the address behind `#`: the tab, and what it shows. */
const place = () => {
  const [tab = "", ...rest] = location.hash.slice(1).split("/");
  try {
    return { tab, rest: rest.map(decodeURIComponent) };
  } catch {
    return { tab, rest: [] };
  }
};

/** @param {string[]} parts */
export const go = (...parts) => {
  location.hash = parts.map(encodeURIComponent).join("/");
};

/** @returns {[string, (theme: string) => void]} */
function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("mcp-page-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("mcp-page-theme", theme);
  }, [theme]);
  return [theme, setTheme];
}

function App() {
  const [me, setMe] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isOut, setOut] = useState(false);
  const load = async (hasTried) => {
    try {
      setMe(await post("me"));
      setOut(false);
      setError(null);
    } catch (failed) {
      setOut(true);
      setError(hasTried || /** @type {any} */ (failed).status !== 401 ? failed : null);
    }
  };
  useEffect(() => {
    load(false);
    const out = () => setOut(true);
    signedOut.addEventListener("signed-out", out);
    return () => signedOut.removeEventListener("signed-out", out);
  }, []);
  if (isOut) return html`<${SignIn} error=${error} done=${() => load(true)} />`;
  if (!me) return html`<p class="muted middle" aria-busy="true">Loading …</p>`;
  // Keeps what is known if it fails.
  const renew = () => post("me").then(setMe, () => {});
  return html`<${Frame} me=${me} renew=${renew} out=${() => { signOut(); setError(null); setOut(true); }} />`;
}

/** @param {{error: any, done: () => void}} props */
function SignIn({ error, done }) {
  const [token, setToken] = useState("");
  const submit = (event) => {
    event.preventDefault();
    signIn(token);
    done();
  };
  return html`<main class="sign-in"><h1>Sign in</h1>
    <${Failure} error=${error} />
    <form onSubmit=${submit}>
      <label for="token">Token of this server</label>
      <input id="token" type="password" autocomplete="current-password" value=${token} required
        onInput=${(event) => setToken(event.target.value)} />
      <div class="buttons"><button class="primary">Sign in</button></div>
    </form>
  </main>`;
}

const mayTell = () => "Notification" in window && Notification.permission === "granted";

/** @param {{me: any, renew: () => void, out: () => void}} props */
function Frame({ me, renew, out }) {
  const tabs = me.has_data ? OF_GATEWAY : OF_SERVER;
  const [where, setWhere] = useState(place());
  const [view, setView] = useState("");
  const [tick, setTick] = useState({ events: 0, lists: 0 });
  const [isLive, setLive] = useState(true);
  const loadState = async (/** @type {AbortSignal} */ signal) => (me.has_data ? data("state", {}, signal) : null);
  const { value: state, error, reload } = useLoaded(loadState, `${tick.events} ${tick.lists}`, 2000);
  const [theme, setTheme] = useTheme();
  useEffect(() => {
    const moved = () => setWhere(place());
    addEventListener("hashchange", moved);
    // It may have changed since the first drawing.
    moved();
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => (me.has_data ? follow(setTick, setLive) : undefined), []);
  // A view may come with the lists.
  useEffect(() => { if (tick.lists) renew(); }, [tick.lists]);
  // Ages and the time of the next try change without an event.
  useInterval(reload, 5000);
  const known = useRef(/** @type {string[]} */ ([]));
  // Tells of calls that have come while the person looks at something else. Their texts are left out: others have written them.
  const tell = (found) => {
    const waiting = found?.may.decide ? found.waiting : [];
    const isNew = waiting.some((id) => !known.current.includes(id));
    known.current = waiting;
    if (!isNew || document.hasFocus() || !mayTell()) return;
    const options = { body: `${me.server.name}: ${waiting.length}`, tag: "mcp-waiting", renotify: true };
    const call = new Notification("A call waits for a decision", options);
    call.onclick = () => { focus(); go("approvals"); };
  };
  useEffect(() => tell(state), [state]);
  // A hidden page has no stream, and loads nothing else.
  useInterval(() => document.hidden && me.has_data && mayTell() && data("state").then(tell, () => {}), 15_000);
  const names = Object.keys(tabs);
  const current = names.find((name) => name.toLowerCase() === where.tab) ?? names[0];
  useEffect(() => {
    document.title = `${current} – ${me.server.name}`;
    // Not `scrollIntoView`, after which Tab would begin there.
    const link = /** @type {HTMLElement | null} */ (document.querySelector("nav a[aria-current]"));
    if (link?.parentElement) link.parentElement.scrollLeft = link.offsetLeft - 60;
  }, [current]);
  const Tab = /** @type {any} */ (tabs)[current];
  // The other tabs are about the whole server.
  const hasView = me.views?.length > 0 && ["Tools", "Try", "Connect"].includes(current);
  const inView = hasView ? view : "";
  chooseView(inView);
  const waiting = (name) => name === "Approvals" && state?.waiting.length > 0 && html` <span class="badge warn">${state.waiting.length}</span>`;
  const themes = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
  const next = { auto: "light", light: "dark", dark: "auto" };
  return html`<header>
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <h1>${me.server.name} <span class="muted">${me.server.version}</span></h1>
      <div class="right">
        ${!isLive && html`<span class="badge bad" role="status">not connected</span>`}
        <span class="muted" title=${state?.role ? `role ${state.role}` : ""}>${me.principal}</span>
        <button class="small" onClick=${() => setTheme(/** @type {any} */ (next)[theme])}>${/** @type {any} */ (themes)[theme]}</button>
        ${me.needs_token && html`<button class="small" onClick=${out}>Sign out</button>`}
      </div>
    </header>
    <nav aria-label="Tabs">${names.map((name) => html`<a href=${`#${name.toLowerCase()}`} key=${name}
      aria-current=${name === current ? "page" : undefined}>${name}${waiting(name)}</a>`)}</nav>
    <main id="main" tabindex="-1">
      <${Failure} error=${current === "Overview" || current === "Backends" || current === "Status" ? error : null} />
      ${hasView && html`<div class="filters"><label for="view">View</label>
        <select id="view" value=${view} onChange=${(event) => setView(event.target.value)}>
          <option value="">none: all tools</option>${me.views.map((name) => html`<option value=${name}>${name}</option>`)}</select></div>`}
      <${Tab} key=${`${current} ${inView}`} me=${{ ...me, view: inView }} state=${state} tick=${tick} where=${where.rest} go=${go} />
    </main>`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
try {
  root.replaceChildren();
  render(html`<${App} />`, root);
} catch (error) {
  root.textContent = `The page cannot be shown: ${reason(error)}`;
}
