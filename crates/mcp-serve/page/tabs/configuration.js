// @ts-check
// The configuration in effect. It is changed in its file only.

import { data } from "../server.js";
import { Badge, Failure, Missing, html, useLoaded } from "../ui.js";

/** @param {any} value */
const isSet = (value) => value !== null && value !== undefined && !(Array.isArray(value) && !value.length);

/** @param {any} value */
const shown = (value) => (Array.isArray(value) ? value.join(", ") : String(value));

const Table = ({ of }) => html`<dl class="settings">${Object.entries(of).filter(([, value]) => isSet(value)).map(([name, value]) =>
  html`<div key=${name}><dt>${name}</dt><dd><bdi>${shown(value)}</bdi></dd></div>`)}</dl>`;

export function Configuration({ tick }) {
  const { value, error } = useLoaded((signal) => data("settings", {}, signal), tick.events, 2000);
  if (!value) return html`<${Missing} error=${error} />`;
  const { reload } = value;
  const isBad = reload?.status === "failure";
  return html`<${Failure} error=${error} />
    <section class="card wide"><h2>File</h2>
      <p>${value.file ? html`<code>${value.file}</code>` : "No file: the command line and the variables say everything."}</p>
      <p>${reload ? html`<${Badge} kind=${isBad ? "bad" : "good"}>${isBad ? "refused" : "applied"}<//> ${new Date(reload.timestamp).toLocaleString("en-GB")}` : html`<span class="muted">It has not changed since the start.</span>`}</p>
      ${isBad && html`<p class="failure">${reload.metadata?.error}</p><p>The configuration before is still in effect.</p>`}
      <p class="muted">Change the file: it is followed; the options of the server count from its start.</p></section>
    <div class="cards">
      ${value.server && html`<section class="card"><h2>Server</h2><dl class="settings">${value.server.map((one) => html`<div key=${one.key}><dt>${one.key}</dt><dd><bdi>${one.value}</bdi> <span class="muted">${one.source}</span></dd></div>`)}</dl>
        ${!value.server.length && html`<p class="muted">No option is set.</p>`}</section>`}
      <section class="card"><h2>Gateway</h2><${Table} of=${value.gateway} />${value.views.length > 0 && html`<p>Views: ${value.views.join(", ")}</p>`}</section>
      ${Object.entries(value.backends).map(([key, backend]) => html`<section class="card" key=${key}><h2>Backend <bdi>${key}</bdi></h2><${Table} of=${backend} /></section>`)}
      ${Object.entries(value.roles).map(([key, role]) => html`<section class="card" key=${`role ${key}`}><h2>Role <bdi>${key}</bdi></h2><${Table} of=${role} /></section>`)}
    </div>`;
}
