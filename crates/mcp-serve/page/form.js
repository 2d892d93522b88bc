// @ts-check
// A form from a JSON Schema: fields for what has a simple form, JSON for the rest.

import { foreign, html, useState } from "./ui.js";

/** @typedef {{schema: any, name: string, isRequired: boolean, kind: string}} Field */

/** @param {any} schema */
function kindOf(schema) {
  const type = Array.isArray(schema?.type) ? schema.type.find((one) => one !== "null") : schema?.type;
  if (Array.isArray(schema?.enum) && schema.enum.every((one) => typeof one !== "object")) return "choice";
  if (Array.isArray(schema?.oneOf) && schema.oneOf.every((one) => one?.const !== undefined)) return "choice";
  if (type === "boolean") return "boolean";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return "text";
  if (type === "array" && schema.items?.type === "string" && !schema.items.enum) return "lines";
  return "json";
}

/** @param {any} schema @returns {Field[]} */
export function fieldsOf(schema) {
  const required = new Set(Array.isArray(schema?.required) ? schema.required : []);
  const all = Object.entries(schema?.properties ?? {}).map(([name, of]) => ({
    name,
    schema: of ?? {},
    isRequired: required.has(name),
    kind: kindOf(of),
  }));
  return [...all.filter((field) => field.isRequired), ...all.filter((field) => !field.isRequired)];
}

/** @param {any} schema @returns {{value: any, title: string}[]} */
const choices = (schema) =>
  schema.enum
    ? schema.enum.map((value, at) => ({ value, title: schema.enumNames?.[at] ?? String(value) }))
    : schema.oneOf.map((one) => ({ value: one.const, title: one.title ?? String(one.const) }));

/**
 * The value of a field; `undefined` if it is left out.
 * @param {Field} field @param {string} text
 */
function read(field, text) {
  if (text === "") return undefined;
  switch (field.kind) {
    case "boolean":
      return text === "true";
    case "choice":
      return choices(field.schema).find((choice) => String(choice.value) === text)?.value;
    case "number": {
      const number = Number(text);
      if (Number.isNaN(number)) throw new Error("is not a number");
      if (field.schema.type === "integer" && !Number.isInteger(number)) throw new Error("is not a whole number");
      return number;
    }
    case "lines":
      return text.split("\n").filter((line) => line !== "");
    case "json":
      try {
        return JSON.parse(text);
      } catch {
        throw new Error("is not JSON");
      }
    default:
      return text;
  }
}

/** @param {Record<string, string>} texts @param {string} name */
const textOf = (texts, name) => (Object.hasOwn(texts, name) ? texts[name] : "");

/**
 * The arguments of a form, or what is wrong with each field.
 * @param {any} schema @param {Record<string, string>} texts
 */
export function readForm(schema, texts) {
  // Without a prototype: an argument may be named `constructor` or `__proto__`.
  /** @type {Record<string, any>} */
  const value = Object.create(null);
  /** @type {Record<string, string>} */
  const wrong = Object.create(null);
  for (const field of fieldsOf(schema)) {
    try {
      const found = read(field, textOf(texts, field.name));
      if (found !== undefined) value[field.name] = found;
      else if (field.isRequired && field.kind === "text") value[field.name] = "";
      else if (field.isRequired) wrong[field.name] = "is needed";
    } catch (error) {
      wrong[field.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return { value, wrong };
}

/**
 * @param {{schema: any, texts: Record<string, string>, wrong: Record<string, string>,
 *   change: (name: string, text: string) => void, prefix: string}} props
 */
export function Fields({ schema, texts, wrong, change, prefix }) {
  return fieldsOf(schema).map((field) => {
    const id = `${prefix}-${field.name}`;
    const set = (event) => change(field.name, event.target.value);
    const value = textOf(texts, field.name);
    const isWrong = Object.hasOwn(wrong, field.name);
    const about = field.schema.description ? `${id}-about` : undefined;
    const common = { id, value, onInput: set, "aria-describedby": about, "aria-invalid": isWrong };
    const hint = field.schema.default !== undefined ? `default: ${foreign(JSON.stringify(field.schema.default))}` : "";
    let input;
    if (field.kind === "boolean" || field.kind === "choice") {
      const all = field.kind === "boolean" ? [{ value: true, title: "yes" }, { value: false, title: "no" }] : choices(field.schema);
      input = html`<select ...${common} onChange=${set}><option value="">${hint || "–"}</option>
        ${all.map((one) => html`<option value=${String(one.value)}>${foreign(one.title)}</option>`)}</select>`;
    } else if (field.kind === "number") {
      input = html`<input ...${common} inputmode="decimal" placeholder=${hint} autocomplete="off" />`;
    } else {
      const rows = field.kind === "text" ? 1 : 3;
      input = html`<textarea ...${common} rows=${rows} placeholder=${hint} spellcheck="false"
        class=${field.kind === "json" ? "code" : ""}></textarea>`;
    }
    const form = { lines: "one a line", json: "JSON" }[field.kind];
    return html`<div class="field" key=${field.name}>
      <label for=${id}><bdi>${foreign(field.schema.title ?? field.name)}</bdi>${field.isRequired && html`<span class="muted"> needed</span>`}
        ${form && html`<span class="muted"> ${form}</span>`}</label>
      ${input}
      ${isWrong && html`<p class="failure" role="alert">${wrong[field.name]}</p>`}
      ${about && html`<p class="muted about" id=${about} dir="auto">${foreign(field.schema.description)}</p>`}
    </div>`;
  });
}

/**
 * A question to the model of the client (sampling): the person answers in its place, or declines.
 * @param {{params: any, answer: (answer: any) => void}} props
 */
function Sampling({ params, answer }) {
  const [text, setText] = useState("");
  const accept = (event) => {
    event.preventDefault();
    answer({ role: "assistant", content: { type: "text", text }, model: "a person", stopReason: "endTurn" });
  };
  const shown = [{ role: "system", content: { text: params.systemPrompt } }, ...(params.messages ?? [])].filter((one) => one.content?.text !== undefined || one.role !== "system");
  return html`<form class="question" onSubmit=${accept} aria-label="Question to the model">
    <h3>The server asks your model</h3><p class="muted">This page has none: answer in its place, or decline.</p>
    ${shown.map((one) => html`<p class="muted">${foreign(one.role)}</p><pre tabindex="0" dir="auto">${foreign([one.content].flat().map((part) => part?.text ?? JSON.stringify(part)).join("\n"))}</pre>`)}
    <div class="field"><label for="sampled">Answer</label><textarea id="sampled" rows="4" required value=${text} onInput=${(event) => setText(event.target.value)}></textarea></div>
    <div class="buttons"><button class="primary">Answer</button><button type="button" onClick=${() => answer(null)}>Decline</button></div>
  </form>`;
}

/**
 * A question of a server during a call.
 * @param {{question: any, answer: (answer: any) => void}} props
 */
export function Question({ question, answer }) {
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ ({}));
  const [wrong, setWrong] = useState({});
  const params = question.params ?? {};
  if (question.method === "sampling/createMessage") return html`<${Sampling} params=${params} answer=${answer} />`;
  const accept = (event) => {
    event.preventDefault();
    if (params.mode === "url") return answer({ action: "accept" });
    const form = readForm(params.requestedSchema, texts);
    setWrong(form.wrong);
    if (!Object.keys(form.wrong).length) answer({ action: "accept", content: form.value });
  };
  const isSafe = /^https?:\/\//i.test(params.url ?? "");
  return html`<form class="question" onSubmit=${accept} aria-label="Question of the server">
    <h3>The server asks</h3>
    <p class="foreign" dir="auto">${foreign(params.message ?? "")}</p>
    ${params.mode === "url" && html`<p>${isSafe ? html`<a href=${params.url} target="_blank" rel="noreferrer noopener">${foreign(params.url)}</a>` : foreign(params.url ?? "")}</p>`}
    <${Fields} schema=${params.requestedSchema} texts=${texts} wrong=${wrong} prefix="question"
      change=${(name, text) => setTexts({ ...texts, [name]: text })} />
    <div class="buttons"><button class="primary">Answer</button>
      <button type="button" onClick=${() => answer({ action: "decline" })}>Decline</button>
      <button type="button" onClick=${() => answer({ action: "cancel" })}>Cancel</button></div>
  </form>`;
}
