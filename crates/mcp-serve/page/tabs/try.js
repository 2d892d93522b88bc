// @ts-check
// Calls a tool as the person who has signed in: the same roles, approvals and limits, and the same record.

import { Fields, Question, readForm } from "../form.js";
import { callTool } from "../server.js";
import { Copy, Empty, Failure, Missing, foreign, html, milliseconds, useEffect, useLoaded, useRef, useState } from "../ui.js";
import { loadTools } from "./tools.js";

export function Try({ me, tick, where, go }) {
  const { value, error } = useLoaded(() => loadTools(me), tick.lists);
  const [name] = where;
  const [text, setText] = useState(name ?? "");
  useEffect(() => setText(name ?? ""), [name]);
  if (!value) return html`<${Missing} error=${error} />`;
  if (!value.tools.length) return html`<${Empty} title="There is no tool to try."><p>No backend runs that has one, or your role allows none.</p><//>`;
  const chosen = value.tools.find((tool) => tool.definition.name === name);
  const pick = (event) => {
    setText(event.target.value);
    if (value.tools.some((tool) => tool.definition.name === event.target.value)) go("try", event.target.value);
  };
  return html`<div class="filters"><label for="tool">Tool</label>
      <input id="tool" type="search" list="tools" class="grow" value=${text} onInput=${pick} placeholder="Name" autocomplete="off" spellcheck="false" />
      <datalist id="tools">${value.tools.map((tool) => html`<option value=${tool.definition.name} />`)}</datalist></div>
    ${chosen ? html`<${Call} key=${where.join("/")} tool=${chosen} given=${where[1]} />` : html`<${Empty} title=${name ? "There is no such tool." : "Choose a tool."} />`}`;
}

/** The texts of a form with these arguments. @param {string | undefined} json @returns {Record<string, string>} */
function filled(json) {
  try {
    const entries = Object.entries(JSON.parse(json ?? "{}"));
    return Object.fromEntries(entries.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]));
  } catch {
    return {};
  }
}

function Call({ tool, given }) {
  const definition = tool.definition;
  const [texts, setTexts] = useState(filled(given));
  const [wrong, setWrong] = useState({});
  const [json, setJson] = useState(/** @type {string | null} */ (null));
  const [run, setRun] = useState(/** @type {any} */ (null));
  const abort = useRef(/** @type {AbortController | null} */ (null));
  const submit = async (event) => {
    event.preventDefault();
    let args;
    if (json !== null) {
      try {
        args = JSON.parse(json);
      } catch {
        return setRun({ error: new Error("The arguments are not JSON.") });
      }
    } else {
      const form = readForm(definition.inputSchema, texts);
      setWrong(form.wrong);
      if (Object.keys(form.wrong).length) return;
      args = form.value;
    }
    const started = performance.now();
    const stop = new AbortController();
    abort.current = stop;
    const update = (change) => setRun((before) => ({ ...before, ...change }));
    setRun({ isRunning: true, messages: [] });
    // On a phone it is below the form.
    document.getElementById("result")?.scrollIntoView({ block: "nearest" });
    try {
      const result = await callTool(definition, args, {
        signal: stop.signal,
        onMessage: (message) => setRun((before) => message.method === "notifications/progress"
          ? { ...before, progress: message.params }
          : { ...before, messages: [...before.messages, message].slice(-200) }),
        onTask: (task) => update({ task }),
        ask: (question) => new Promise((resolve) => update({ question, answer: (answer) => { update({ question: null }); resolve(answer); } })),
      });
      update({ isRunning: false, result, took: performance.now() - started });
    } catch (error) {
      const failed = stop.signal.aborted ? new Error("You have cancelled the call.") : error;
      update({ isRunning: false, question: null, error: failed, took: performance.now() - started });
    }
  };
  const switchForm = () => setJson(json === null ? JSON.stringify(readForm(definition.inputSchema, texts).value, null, 2) : null);
  const isDangerous = tool.effect === "destructive";
  return html`<div class="split even"><section aria-label="Arguments">
      <p class="foreign" dir="auto">${foreign(definition.description ?? "")}</p>
      ${isDangerous && html`<p class="warning">This tool may lose data. The call is real.</p>`}
      <form onSubmit=${submit}>
        ${json === null
          ? html`<${Fields} schema=${definition.inputSchema} texts=${texts} wrong=${wrong} prefix="argument"
              change=${(name, text) => setTexts({ ...texts, [name]: text })} />
              ${!Object.keys(definition.inputSchema?.properties ?? {}).length && html`<p class="muted">It takes no arguments.</p>`}`
          : html`<div class="field"><label for="json">Arguments</label><textarea id="json" class="code" rows="12" spellcheck="false" value=${json} onInput=${(event) => setJson(event.target.value)}></textarea></div>`}
        <div class="buttons"><button class=${isDangerous ? "danger" : "primary"} disabled=${run?.isRunning}>Call</button>
          <button type="button" onClick=${switchForm}>${json === null ? "As JSON" : "As a form"}</button>
          ${run?.isRunning && html`<button type="button" onClick=${() => abort.current?.abort()}>Cancel</button>`}</div>
      </form></section>
    <section id="result" aria-label="Result" aria-live="polite"><${Outcome} run=${run} /></section></div>`;
}

function Outcome({ run }) {
  if (!run) return html`<${Empty} title="The result will be here." />`;
  const { progress, result, task } = run;
  const percent = progress?.total ? Math.round((100 * progress.progress) / progress.total) : undefined;
  return html`${run.question && html`<${Question} question=${run.question} answer=${run.answer} />`}
    ${run.isRunning && !run.question && html`<p class="muted" aria-busy="true">It is running${percent === undefined ? "" : `, ${percent} %`} …</p>`}
    ${task && html`<p role="status">${run.isRunning ? "It is a task" : "It was a task"}: <span class="badge">${task.status}</span> <bdi>${foreign(task.statusMessage ?? "")}</bdi> <code>${foreign(task.taskId)}</code></p>`}
    ${run.isRunning && progress && html`<progress aria-label="Progress" max=${progress.total ?? undefined} value=${progress.total ? progress.progress : undefined}></progress><p class="foreign" dir="auto">${foreign(progress.message ?? "")}</p>`}
    <${Failure} error=${run.error} />
    ${result && html`<p><b class=${result.isError ? "bad-text" : "good-text"}>${result.isError ? "The tool has failed" : "Done"}</b> <span class="muted">after ${milliseconds(run.took)}</span>
      <${Copy} text=${JSON.stringify(result, null, 2)} label="Copy the JSON" /></p>
      ${(result.content ?? []).map(content)}
      ${result.structuredContent && html`<details open=${!result.content?.length}><summary>Structured</summary><pre tabindex="0">${foreign(JSON.stringify(result.structuredContent, null, 2))}</pre></details>`}`}
    ${run.messages?.length > 0 && html`<details><summary>${run.messages.length} messages during the call</summary>
      <pre tabindex="0">${run.messages.map((message) => foreign(JSON.stringify(message.params ?? message))).join("\n")}</pre></details>`}`;
}

/** @param {any} block */
function content(block) {
  if (block.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType)) {
    return html`<img alt="Image of the tool" src=${`data:${block.mimeType};base64,${block.data}`} />`;
  }
  let text = block.text ?? JSON.stringify(block, null, 2);
  if (text.length < 200_000) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Not JSON.
    }
  } else {
    text = `${text.slice(0, 200_000)}\n… ${text.length - 200_000} characters more`;
  }
  return html`<pre tabindex="0" dir="auto">${foreign(text)}</pre>`;
}
