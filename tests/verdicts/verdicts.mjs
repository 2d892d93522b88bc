// Compares validate_workflow of our server, and of the npm package n8n-mcp, with n8n's own verdict: it is
// asked to create, to activate and, for mutations, to run each workflow. Prints the table; a first
// argument is the seed, the next ones the numbers of templates and mutations.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { gunzipSync } from 'node:zlib';
import { mutations } from './mutations.mjs';

const [seed, templateCount, mutationCount] = process.argv.slice(2).map(Number);
const { N8N_URL, N8N_API_KEY, SERVER } = process.env;
const RUN_TIMEOUT = 15_000;
const NODE_FIELDS = ('id name webhookId disabled notesInFlow notes type typeVersion executeOnce alwaysOutputData '
  + 'retryOnFail maxTries waitBetweenTries continueOnFail onError position parameters credentials').split(' ');
const SETTINGS = ('saveExecutionProgress saveManualExecutions saveDataErrorExecution saveDataSuccessExecution '
  + 'executionTimeout timezone executionOrder callerPolicy').split(' ');
const only = (keys, object) => Object.fromEntries(Object.entries(object ?? {}).filter(([key]) => keys.includes(key)));

/** mulberry32 */
function random(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function sample(all, count, next) {
  const rest = [...all];
  return Array.from({ length: Math.min(count, rest.length) }, () => rest.splice(Math.floor(next() * rest.length), 1)[0]);
}

async function api(method, path, body) {
  const response = await fetch(`${N8N_URL}/api/v1${path}`, {
    method, body: body && JSON.stringify(body),
    headers: { 'X-N8N-API-KEY': N8N_API_KEY, 'content-type': 'application/json' },
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  let json = {};
  try { json = JSON.parse(text); } catch { /* a page */ }
  return { status: response.status, json };
}

/** An MCP server over stdio. */
class Peer {
  constructor(command, args, env) {
    this.child = spawn(command, args, { env: { PATH: process.env.PATH, ...env }, stdio: ['pipe', 'pipe', 'ignore'] });
    this.waiting = new Map();
    this.next = 1;
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      let message;
      try { message = JSON.parse(line); } catch { return; }
      this.waiting.get(message.id)?.(message);
    });
  }

  request(method, params) {
    const id = this.next++;
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  async start() {
    await this.request('initialize', {
      protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'verdicts', version: '1' },
    });
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`);
    return this;
  }

  async validate(workflow) {
    const { result, error } = await this.request('tools/call', { name: 'validate_workflow', arguments: { workflow } });
    const text = result?.content?.[0]?.text ?? '';
    if (error || result.isError) return [{ severity: 'error', text: error?.message ?? text }];
    const told = result.structuredContent ?? JSON.parse(text);
    const list = (severity, all) => (all ?? []).map((one) => ({ severity, text: `${one.node ?? one.nodeName ?? ''}: ${one.message ?? one}` }));
    return told.findings
      ? told.findings.map((one) => ({ severity: one.severity, text: `${one.node ?? ''}: ${one.message}` }))
      : [...list('error', told.errors), ...list('warning', told.warnings)];
  }
}

/** What n8n does: "draft", "publish" or "run" where it refuses or fails, else "takes". */
async function truth(workflow, path) {
  const created = await api('POST', '/workflows', workflow);
  if (created.status >= 500) return ['left out', created.json.message];
  if (created.status >= 300) return ['draft', created.json.message];
  const { id } = created.json;
  try {
    const active = await api('POST', `/workflows/${id}/activate`, {});
    if (active.status >= 500) return ['left out', active.json.message];
    if (active.status >= 300) return ['publish', active.json.message];
    if (!path) return ['takes'];
    let status = 404;
    const until = Date.now() + RUN_TIMEOUT;
    while (status === 404 && Date.now() < until) {
      const run = await fetch(`${N8N_URL}/webhook/${path}`, {
        method: 'POST', body: '{"kind":"a"}', headers: { 'content-type': 'application/json' },
        signal: AbortSignal.timeout(RUN_TIMEOUT),
      }).catch((error) => ({ status: 599, text: async () => String(error) }));
      ({ status } = run);
      await run.text();
    }
    const { json } = await api('GET', `/executions?workflowId=${id}&limit=1`);
    const state = json.data?.[0]?.status;
    const isBad = state ? !['success', 'running', 'waiting'].includes(state) : status >= 300;
    return isBad
      ? ['run', `HTTP ${status}, execution ${state}`] : ['takes'];
  } finally {
    await api('POST', `/workflows/${id}/deactivate`, {});
    for (let tries = 0; tries < 40 && (await api('DELETE', `/workflows/${id}`)).status >= 400; tries++)
      await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function templates(next) {
  const require = createRequire(import.meta.url);
  const sql = await require('sql.js')();
  const base = new sql.Database(readFileSync(new URL('node_modules/n8n-mcp/data/nodes.db', import.meta.url)));
  const read = (query, values) => base.exec(query, values)[0].values;
  const ids = read('select id from templates order by id').flat();
  return sample(ids, templateCount, next).map((id) => {
    const packed = read('select workflow_json_compressed from templates where id = ?', [id])[0][0];
    const one = JSON.parse(gunzipSync(Buffer.from(packed, 'base64')));
    return {
      name: `template ${id}`,
      workflow: {
        name: `verdict template ${id}`,
        nodes: one.nodes.map((node) => only(NODE_FIELDS, node)),
        connections: one.connections,
        settings: only(SETTINGS, one.settings),
      },
      base: null,
    };
  });
}

function mutated(next) {
  return sample(mutations, mutationCount, next).map(([name, make, change], at) => {
    const path = `verdict-${process.pid}-${seed}-${at}`;
    const whole = (suffix) => ({ name: `verdict ${name}`, ...make(path + suffix, N8N_URL) });
    const workflow = whole('');
    change(workflow);
    return { name, path, workflow, base: whole('') };
  });
}

const ours = await new Peer(SERVER, ['--stdio', '--toolsets', 'all'], {
  N8N_URL, N8N_API_KEY, N8N_MCP_TOKEN: process.env.N8N_MCP_TOKEN ?? '',
}).start();
const theirs = await new Peer('node', ['node_modules/n8n-mcp/dist/mcp/stdio-wrapper.js'], {
  MCP_MODE: 'stdio', LOG_LEVEL: 'error', DISABLE_CONSOLE_OUTPUT: 'true', N8N_MCP_TELEMETRY_DISABLED: 'true',
}).start();

const next = random(seed);
const groups = { templates: await templates(next), mutations: mutated(next) };
const rows = [];
const details = [];
for (const [group, cases] of Object.entries(groups)) {
  const count = { ours: [0, 0], theirs: [0, 0], refused: 0, taken: 0, out: 0 };
  const basis = new Map();
  for (const { name, path, workflow, base } of cases) {
    // Before n8n has the webhooks of the workflow itself.
    const told = new Map();
    for (const [who, server] of [['ours', ours], ['theirs', theirs]]) {
      const found = await server.validate(workflow);
      const key = `${who} ${JSON.stringify(base).replaceAll(path, '')}`;
      if (base && !basis.has(key)) basis.set(key, new Set((await server.validate(base)).map((one) => one.text)));
      told.set(who, base ? found.filter((one) => !basis.get(key).has(one.text)) : found);
    }
    const [verdict, why] = await truth(workflow, path);
    if (verdict === 'left out') {
      count.out++;
      details.push(`${group}: ${name}: left out: ${why}`);
      continue;
    }
    const isTaken = verdict === 'takes';
    count[isTaken ? 'taken' : 'refused']++;
    for (const [who, found] of told) {
      const errors = found.filter((one) => one.severity === 'error');
      // What n8n refuses must be an error; that a run would fail may be a warning.
      const isFlagged = isTaken ? errors.length > 0 : (verdict === 'run' ? found : errors).length > 0;
      count[who][isTaken ? 1 : 0] += isFlagged;
      if (isFlagged === isTaken) {
        const text = isTaken ? errors.map((one) => one.text).join(' | ') : `${verdict}: ${why}`;
        details.push(`${group}: ${name}: ${who} ${isTaken ? 'flags' : 'misses'}: ${text}`.slice(0, 400));
      }
    }
  }
  for (const who of ['ours', 'theirs']) {
    const [caught, flagged] = count[who];
    rows.push([`${group}, ${who === 'ours' ? 'ours' : 'n8n-mcp'}`, count.refused, caught, count.taken, flagged, count.out]);
  }
}
ours.child.kill();
theirs.child.kill();
for (const line of details) console.log(line.replaceAll('\n', ' '));
console.log(`\nseed ${seed}\n\n| | n8n refuses or fails | caught | n8n takes | flagged as error | left out |\n|---|---|---|---|---|---|`);
for (const row of rows) console.log(`| ${row.join(' | ')} |`);
const sum = (column) => rows.filter((_, at) => at % 2 === 0).reduce((all, row) => all + row[column], 0);
const isGood = sum(2) >= 0.95 * sum(1) && sum(4) <= 0.02 * sum(3);
console.log(isGood ? 'ok' : 'FAILED');
process.exitCode = isGood ? 0 : 1;
