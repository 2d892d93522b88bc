// @ts-check
// A server alone: whether its service answers.

import { post } from "../server.js";
import { Badge, Empty, Failure, Loading, html, useEffect, useLoaded } from "../ui.js";

export function Status(/** @type {any} */ { me }) {
  const { value, error, reload } = useLoaded((signal) => post("me", {}, signal), 0);
  useEffect(() => {
    const timer = setInterval(reload, 5000);
    return () => clearInterval(timer);
  }, []);
  const now = value ?? me;
  if (!now) return html`<${Loading} />`;
  return html`<${Failure} error=${error} />
    <section class="card">
      <h2>${now.server.name} <${Badge} kind=${now.degraded ? "bad" : "good"}>${now.degraded ? "degraded" : "online"}<//></h2>
      <p>${now.server.description}</p>
      ${now.degraded && html`<p class="failure foreign">${now.degraded}</p>`}
    </section>
    ${!now.degraded && html`<${Empty} title="The service answers."><p><a href="#try">Try a tool</a> or <a href="#connect">connect a client</a>.</p><//>`}`;
}
