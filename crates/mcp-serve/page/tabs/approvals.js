// @ts-check
// Calls that wait for an operator.

import { data } from "../server.js";
import { Badge, Decision, Empty, Failure, Missing, Table, foreign, html, useInterval, useLoaded, useState } from "../ui.js";

/** @type {Record<string, string>} */
const KIND = { waiting: "warn", approved: "good", used: "good", refused: "bad", revoked: "bad", changed: "bad" };

/** A button that lets the browser tell of new calls, while it has not been asked. */
function Notify() {
  const [state, setState] = useState("Notification" in window ? Notification.permission : "denied");
  const ask = () => Notification.requestPermission().then(setState);
  return state === "default" && html`<p><button type="button" onClick=${ask}>Notify me of calls that wait</button></p>`;
}

export function Approvals({ tick }) {
  const { value, error, reload } = useLoaded((signal) => data("approvals", {}, signal), tick.events);
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  const [whole, setWhole] = useState(/** @type {Record<string, string>} */ ({}));
  const [now, setNow] = useState(Date.now() / 1000);
  useInterval(() => setNow(Date.now() / 1000), 1000);
  // A role without events is not told of them, and sees its own calls here.
  useInterval(reload, 5000);
  if (!value) return html`<${Missing} error=${error} />`;
  const decide = async (id, answer) => {
    await data("decide-call", { id, answer }).then(() => setFailed(null), setFailed);
    reload();
  };
  const show = async (id) => {
    await data("decide-call", { id, answer: "show" })
      .then((shown) => setWhole((known) => ({ ...known, [id]: shown.arguments })), setFailed);
  };
  const waiting = value.calls.filter((call) => call.status === "waiting" && call.expires > now)
    .sort((one, other) => one.created - other.created);
  const ended = value.calls.filter((call) => !waiting.includes(call));
  return html`<${Failure} error=${error ?? failed} />
    ${!value.may_decide && html`<p class="warning">To decide here you need a token whose role has <code>approve</code> in <code>own</code>. The command <code>mcp-gateway approvals</code> decides in a terminal.</p>`}
    ${value.may_decide && html`<${Notify} />`}
    ${!waiting.length && html`<${Empty} title="No call waits."><p>Calls of tools that match <code>approve</code> in the configuration wait here for a person.</p><//>`}
    ${waiting.map((call, at) => html`<section class="card wide" key=${call.id}>
      <h2><bdi>${foreign(call.tool)}</bdi> <${Badge} kind="warn">waits ${Math.max(0, Math.round(call.expires - now))} s more<//></h2>
      <p class="muted">Asked by <bdi>${foreign(call.principal ?? "a client without a token")}</bdi>${call.client && html`, with <bdi>${foreign(call.client)}</bdi>,`} at ${new Date(call.created * 1000).toLocaleTimeString("en-GB")}</p>
      ${call.effect && html`<p>Effect: <b>${call.effect}</b>. The backend <bdi>${foreign(call.backend)}</bdi> says: <bdi>${foreign(call.description || "nothing")}</bdi></p>`}
      ${call.rule && html`<p class="muted">It waits because of ${foreign(call.rule)}</p>`}
      <pre tabindex="0">${foreign(whole[call.id] ?? call.arguments)}</pre>
      ${value.may_decide && !whole[call.id] && /\(\d+ characters are hidden\)/.test(call.arguments)
        && html`<button type="button" onClick=${() => show(call.id)}>Show the hidden values</button>`}
      ${value.may_decide && html`<${Decision} above=${[error ?? failed, ...waiting.slice(0, at).map((one) => one.id)].join()}
        approve=${() => decide(call.id, "approve")} refuse=${() => decide(call.id, "refuse")} />`}
    </section>`)}
    ${ended.length > 0 && html`<${Table} title="Decided and ended" head=${["Time", "Tool", "Caller", "End", "By"]}>
      ${ended.map((call) => html`<tr key=${call.id}><td>${new Date(call.created * 1000).toLocaleTimeString("en-GB")}</td><td><bdi>${foreign(call.tool)}</bdi></td>
        <td><bdi>${foreign(call.principal ?? "–")}</bdi></td><td><${Badge} kind=${KIND[call.status] ?? ""}>${call.status === "waiting" ? "expired" : call.status}<//></td><td>${call.decided_by ?? "–"}${call.reason && html`: <bdi>${foreign(call.reason)}</bdi>`}</td></tr>`)}
    <//>`}`;
}
