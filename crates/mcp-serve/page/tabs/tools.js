// @ts-check
// The tools: what each does, what it costs, who may call it, and what has changed since it was approved.

import { data, listTools } from "../server.js";
import { Badge, Copy, Decision, Empty, Failure, List, Missing, count, foreign, html, reason, useLoaded, useState } from "../ui.js";

/** @type {Record<string, string>} */
const KIND = { reads: "good", additive: "", idempotent: "warn", destructive: "bad" };

/** @param {any} definition */
function effectOf(definition) {
  const hints = definition.annotations ?? {};
  if (hints.readOnlyHint) return "reads";
  if (hints.destructiveHint === false) return hints.idempotentHint ? "idempotent" : "additive";
  return "destructive";
}

/** As the server counts them: four bytes of its name, its description and its input schema are one token. */
function tokensOf({ name, description, inputSchema }) {
  return Math.ceil(new TextEncoder().encode(JSON.stringify({ name, description, inputSchema })).length / 4);
}

/** All tools that the person may call, in the chosen view. @param {any} me */
export async function loadTools(me) {
  const listed = await listTools();
  // What the gateway says beside its list has the names outside of views.
  const found = me.has_data && !me.view ? await data("tools") : { tools: [], changed: [] };
  const known = new Set(found.tools.map((tool) => tool.definition.name));
  const others = listed.filter((tool) => !known.has(tool.name)).map((definition) => ({
    backend: null,
    definition,
    effect: effectOf(definition),
    tokens: tokensOf(definition),
  }));
  return { tools: [...found.tools, ...others], changed: found.changed };
}

export function Tools({ me, tick, where, go }) {
  const { value, error, reload } = useLoaded(() => loadTools(me), tick.lists);
  const [text, setText] = useState("");
  const [effect, setEffect] = useState("");
  const [backend, name] = where;
  if (!value) return html`<${Missing} error=${error} />`;
  const backends = [...new Set(value.tools.map((tool) => tool.backend ?? ""))];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = value.tools.filter((tool) => {
    const all = `${tool.definition.name} ${tool.definition.title ?? ""} ${tool.definition.description ?? ""}`.toLowerCase();
    return (!backend || backend === "*" || tool.backend === backend) && (!effect || tool.effect === effect) && words.every((word) => all.includes(word));
  });
  const tokens = shown.reduce((sum, tool) => sum + tool.tokens, 0);
  const chosen = value.tools.find((tool) => tool.definition.name === name);
  return html`<${Failure} error=${error} />
    ${value.changed.length > 0 && html`<${Changed} changed=${value.changed} reload=${reload} />`}
    <div class="filters" role="search">
      <input type="search" aria-label="Search the tools" placeholder="Search" value=${text} onInput=${(event) => setText(event.target.value)} />
      ${backends.length > 1 && html`<select aria-label="Backend" value=${backend ?? "*"} onChange=${(event) => go("tools", event.target.value)}>
        <option value="*">All backends</option>${backends.filter(Boolean).map((one) => html`<option value=${one}>${one}</option>`)}</select>`}
      <select aria-label="Effect" value=${effect} onChange=${(event) => setEffect(event.target.value)}>
        <option value="">All effects</option>${Object.keys(KIND).map((one) => html`<option value=${one}>${one}</option>`)}</select>
      <span class="muted" role="status">${count(shown.length)} of ${count(value.tools.length)} tools, about ${count(tokens)} tokens</span>
    </div>
    ${!value.tools.length ? html`<${Empty} title="There are no tools."><p>No backend runs that has one, or your role allows none.</p><//>`
      : !shown.length ? html`<${Empty} title="No tool matches." />`
      : html`<div class="split">
        <${List} rows=${shown} height=${46} label="Tools" id=${(tool) => tool.definition.name} chosen=${name}
          choose=${(tool) => go("tools", backend ?? "*", tool.definition.name)}
          row=${(tool) => html`<span class="grow"><b><bdi>${foreign(tool.definition.name)}</bdi></b><br /><span class="muted"><bdi>${foreign(tool.definition.title ?? tool.definition.description ?? "")}</bdi></span></span>
            <${Badge} kind=${KIND[tool.effect]}>${tool.effect}<//><span class="muted number">${count(tool.tokens)}</span>`} />
        ${chosen ? html`<${Tool} tool=${chosen} />` : html`<${Empty} title="Choose a tool." />`}
      </div>`}`;
}

function Tool({ tool }) {
  const definition = tool.definition;
  const json = JSON.stringify(definition.inputSchema, null, 2);
  return html`<article class="detail" aria-label="Tool">
    <h2><bdi>${foreign(definition.name)}</bdi> <${Badge} kind=${KIND[tool.effect]}>${tool.effect}<//></h2>
    <p class="foreign" dir="auto">${foreign(definition.description ?? "")}</p>
    <dl class="facts">
      ${tool.backend && html`<div><dt>Backend</dt><dd>${tool.backend}</dd></div>`}
      <div><dt>Costs</dt><dd>${count(tool.tokens)} tokens</dd></div>
      ${tool.roles && html`<div><dt>Who may call it</dt><dd>${tool.roles.join(", ") || "nobody"}</dd></div>`}
    </dl>
    <div class="buttons"><a class="button primary" href=${`#try/${encodeURIComponent(definition.name)}`}>Try it</a><${Copy} text=${definition.name} label="Copy the name" /></div>
    <details open><summary>Input schema</summary><pre tabindex="0">${foreign(json)}</pre></details>
    ${definition.outputSchema && html`<details><summary>Output schema</summary><pre tabindex="0">${foreign(JSON.stringify(definition.outputSchema, null, 2))}</pre></details>`}
  </article>`;
}

function Changed({ changed, reload }) {
  const [error, setError] = useState("");
  const decide = async (one, approve) => {
    setError("");
    try {
      await data("decide-tool", { backend: one.backend, tool: one.tool, hash: one.hash, approve });
    } catch (failed) {
      setError(reason(failed));
    }
    reload();
  };
  return html`<section class="card wide changed"><h2>Changed since they were approved</h2>
    ${error && html`<p class="failure" role="alert">${error}</p>`}
    ${changed.map((one, at) => html`<details key=${`${one.backend} ${one.tool} ${one.hash}`} open=${changed.length === 1}>
      <summary><b><bdi>${one.backend}__${foreign(one.tool)}</bdi></b> <${Badge} kind=${one.held ? "bad" : "warn"}>${one.status}<//> <span class="muted">${one.held ? "held back" : "offered"}, seen ${one.since}</span></summary>
      <pre class="diff" tabindex="0">${(one.diff ?? ["The definition is too long to be shown."]).map((line) =>
        html`<span class=${line[0] === "+" ? "added" : line[0] === "-" ? "removed" : ""}>${line}${"\n"}</span>`)}</pre>
      ${one.may_decide ? html`<${Decision} above=${[error, ...changed.slice(0, at).map((other) => other.hash)].join()}
          approve=${() => decide(one, true)} refuse=${() => decide(one, false)}><span class="muted">${one.hash.slice(0, 12)}</span><//>`
        : html`<p class="muted">A role with <code>approve</code> decides, or <code>mcp-gateway pins approve ${one.backend}__${foreign(one.tool)}</code>.</p>`}
    </details>`)}
  </section>`;
}
