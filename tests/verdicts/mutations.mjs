// Small workflows that run, and changes of one place: some break it, some n8n takes.

const to = (node, index = 0, type = 'main') => ({ node, type, index });
const node = (name, type, typeVersion, parameters, more = {}) => ({
  id: name, name, type: type.includes('.') ? type : `n8n-nodes-base.${type}`, typeVersion, parameters,
  position: [0, 0], ...more,
});
const condition = (leftValue, operation = 'equals', type = 'string', rightValue = 'a') => ({
  options: { caseSensitive: true, typeValidation: 'loose', version: 2 }, combinator: 'and',
  conditions: [{ id: 'c', leftValue, rightValue, operator: { type, operation } }],
});
const hook = (path, responseMode = 'lastNode') =>
  node('Webhook', 'webhook', 2, { httpMethod: 'POST', path, responseMode, options: {} }, { webhookId: path });
const set = (name, value) => node(name, 'set', 3.4, {
  assignments: { assignments: [{ id: 'a', name: 'x', value, type: 'string' }] }, options: {},
});
const workflow = (nodes, connections) =>
  ({ nodes, connections, settings: { executionOrder: 'v1', executionTimeout: 6 } });

/** A webhook that branches, calls a URL and runs code. */
export const branching = (path, url) => workflow([
  hook(path, 'responseNode'),
  set('Set', '={{ $json.body.kind }}'),
  node('If', 'if', 2.2, { conditions: condition('={{ $json.x }}'), options: {} }),
  node('Code', 'code', 2, { jsCode: "const first = $('Set').first();\nreturn [{ json: { y: first.json.x } }];" }),
  node('HTTP', 'httpRequest', 4.2, { url: `${url}/healthz`, options: {} }),
  node('Respond', 'respondToWebhook', 1.4, { respondWith: 'json', responseBody: '={{ $json }}', options: {} }),
], {
  Webhook: { main: [[to('Set')]] },
  Set: { main: [[to('If')]] },
  If: { main: [[to('Code')], [to('HTTP')]] },
  Code: { main: [[to('HTTP')]] },
  HTTP: { main: [[to('Respond')]] },
});

/** A loop over items. */
export const looping = (path) => workflow([
  hook(path),
  node('Items', 'code', 2, { jsCode: 'return [1, 2, 3].map((n) => ({ json: { n } }));' }),
  node('Loop', 'splitInBatches', 3, { options: {} }),
  set('Work', '={{ $json.n }}'),
  set('Done', 'done'),
], {
  Webhook: { main: [[to('Items')]] },
  Items: { main: [[to('Loop')]] },
  Loop: { main: [[to('Done')], [to('Work')]] },
  Work: { main: [[to('Loop')]] },
});

/** Two branches that are merged. */
export const merging = (path) => workflow([
  hook(path),
  node('Switch', 'switch', 3.2, {
    rules: { values: [{ conditions: condition('={{ $json.body.kind }}'), renameOutput: false },
      { conditions: condition('={{ $json.body.kind }}', 'notEquals'), renameOutput: false }] },
    options: { allMatchingOutputs: true },
  }),
  set('A', 'a'),
  set('B', 'b'),
  node('Merge', 'merge', 3, {}),
], {
  Webhook: { main: [[to('Switch')]] },
  Switch: { main: [[to('A')], [to('B')]] },
  A: { main: [[to('Merge')]] },
  B: { main: [[to('Merge', 1)]] },
});

const of = (w, name) => w.nodes.find((one) => one.name === name);
const parameters = (name, change) => (w) => Object.assign(of(w, name).parameters, change);
const fields = (name, change) => (w) => Object.assign(of(w, name), change);
const without = (name) => (w) => {
  w.nodes = w.nodes.filter((one) => one.name !== name);
  delete w.connections[name];
  for (const kinds of Object.values(w.connections))
    for (const all of Object.values(kinds))
      all.forEach((targets, at) => { all[at] = targets.filter((target) => target.node !== name); });
};
const added = (after, one, output = 0) => (w) => {
  w.nodes.push(one);
  w.connections[after] ??= { main: [] };
  const all = w.connections[after].main;
  while (all.length <= output) all.push([]);
  all[output].push(to(one.name));
};
const last = (type, version, values, more) => added('Set', node('New', type, version, values, more));
const value = (text) => (w) => { of(w, 'Set').parameters.assignments.assignments[0].value = text; };
const code = (jsCode) => parameters('Code', { jsCode });
const attached = (w, name, type, version, kind, target) => {
  w.nodes.push(node(name, type, version, {}));
  w.connections[name] = { [kind]: [[to(target, 0, kind)]] };
};
const agent = (w) => {
  added('Set', node('Agent', '@n8n/n8n-nodes-langchain.agent', 2, { promptType: 'define', text: 'hi' }))(w);
};
const rename = (w, old, name) => {
  of(w, old).name = name;
  w.connections = JSON.parse(JSON.stringify(w.connections).replaceAll(JSON.stringify(old), JSON.stringify(name)));
};

/** Name, workflow, change. Whether n8n takes it is asked, not written down. */
export const mutations = [
  // Structure.
  ['connection to nowhere', branching, (w) => w.connections.Set.main[0].push(to('Nowhere'))],
  ['connection from nowhere', branching, (w) => { w.connections.Nowhere = { main: [[to('Set')]] }; }],
  ['two nodes of one name', branching, (w) => w.nodes.push({ ...of(w, 'Set'), id: 'other' })],
  ['node without a name', branching, (w) => { delete of(w, 'HTTP').name; }],
  ['connections of another form', branching, (w) => { w.connections.Set = 1; }],
  ['no trigger', branching, without('Webhook')],
  ['trigger disabled', branching, fields('Webhook', { disabled: true })],
  ['no nodes', branching, (w) => { w.nodes = []; w.connections = {}; }],
  ['type without its package', branching, fields('Set', { type: 'set' })],
  ['type that does not exist', branching, fields('Set', { type: 'n8n-nodes-base.sett' })],
  ['package that is not installed', branching, last('n8n-nodes-acme.thing', 1, {})],
  ['version that does not exist', branching, fields('HTTP', { typeVersion: 99 })],
  ['version of the future', branching, fields('Code', { typeVersion: 7.3 })],
  ['manual trigger only', looping, fields('Webhook', { type: 'n8n-nodes-base.manualTrigger', typeVersion: 1, parameters: {} })],
  // Required.
  ['URL missing', branching, (w) => { delete of(w, 'HTTP').parameters.url; }],
  ['URL empty', branching, parameters('HTTP', { url: '' })],
  ['URL without scheme', branching, parameters('HTTP', { url: 'example.test/path' })],
  ['URL relative', branching, parameters('HTTP', { url: '/healthz' })],
  ['postgres without credential', branching, last('postgres', 2.5, { operation: 'executeQuery', query: 'select 1' })],
  ['mail without credential', branching, last('emailSend', 2.1, { fromEmail: 'a@b.test', toEmail: 'c@d.test', subject: 'x' })],
  ['slack without credential', branching, last('slack', 2.2, { resource: 'message', operation: 'post', select: 'channel', channelId: { __rl: true, mode: 'id', value: 'C1' }, text: 'x' })],
  ['sheet without document', branching, last('googleSheets', 4.5, { operation: 'read' })],
  ['telegram without chat', branching, last('telegram', 1.2, {}, { credentials: { telegramApi: { id: 'x', name: 'x' } } })],
  ['header auth without credential', branching, parameters('HTTP', { authentication: 'genericCredentialType', genericAuthType: 'httpHeaderAuth' })],
  ['webhook with auth without credential', branching, parameters('Webhook', { authentication: 'headerAuth' })],
  ['redis without credential', branching, last('redis', 1, { operation: 'get', key: 'x' })],
  ['agent with model without credential', branching, (w) => { agent(w); attached(w, 'Model', '@n8n/n8n-nodes-langchain.lmChatOpenAi', 1.2, 'ai_languageModel', 'Agent'); }],
  ['agent without model', branching, agent],
  ['sub-workflow that does not exist', branching, last('executeWorkflow', 1.2, { workflowId: { __rl: true, mode: 'id', value: 'doesNotExist1' } })],
  ['sub-workflow not named', branching, last('executeWorkflow', 1.2, {})],
  ['notion without credential', branching, last('notion', 2.2, { resource: 'user', operation: 'getAll' })],
  ['github without owner', branching, last('github', 1.1, { resource: 'issue', operation: 'create' }, { credentials: { githubApi: { id: 'x', name: 'x' } } })],
  ['webhook path twice', branching, (w) => w.nodes.push({ ...of(w, 'Webhook'), id: 'w2', name: 'Webhook 2' })],
  // A run fails.
  ['expression with a double dot', branching, value('={{ $json.body..x }}')],
  ['expression with an open bracket', branching, value('={{ $json.body.kind.slice(0, 1 }}')],
  ['expression with an operator at its end', branching, value('={{ $json.body.kind + }}')],
  ['expression with an open string', branching, value("={{ $json.body['kind }}")],
  ['expression names no node', branching, value("={{ $('Nope').item.json.x }}")],
  ['code with a syntax error', branching, code('const a = ;\nreturn [];')],
  ['code with an open bracket', branching, code('return [{ json: { a: 1 } ;')],
  ['code with an open string', branching, code("const a = 'x;\nreturn [{ json: { a } }];")],
  ['code with a wrong word', branching, code('retrun $input.all();')],
  ['code names no node', branching, code("return $('Nope').all();")],
  ['code empty', branching, code('')],
  ['code returns nothing', branching, code('const a = 1;')],
  ['code returns a number', branching, code('return 5;')],
  ['respond node missing', branching, without('Respond')],
  ['respond node without its webhook', branching, parameters('Webhook', { responseMode: 'lastNode' })],
  ['JSON body that is not JSON', branching, parameters('HTTP', { method: 'POST', sendBody: true, specifyBody: 'json', jsonBody: '{"a": ' })],
  ['cycle without exit', looping, (w) => { w.connections.Items.main[0] = [to('Work')]; w.connections.Work.main[0] = [to('Done')]; w.connections.Done = { main: [[to('Work')]] }; }],
  ['loop outputs swapped', looping, (w) => { w.connections.Loop.main.reverse(); }],
  // n8n takes it, mostly.
  ['output that does not exist', branching, added('If', set('Far', 'x'), 3)],
  ['second output of a set', branching, added('Set', set('Far', 'x'), 1)],
  ['number for a text', branching, parameters('HTTP', { sendQuery: true, queryParameters: { parameters: [{ name: 'a', value: 5 }] } })],
  ['number for a header', branching, parameters('HTTP', { sendHeaders: true, headerParameters: { parameters: [{ name: 'x-a', value: 7 }] } })],
  ['apostrophe in a name', branching, (w) => { rename(w, 'Set', "It's set"); of(w, 'Code').parameters.jsCode = "return [{ json: { y: $('It\\'s set').first().json.x } }];"; }],
  ['quotes in a name', branching, (w) => { rename(w, 'Set', 'The "set"'); of(w, 'Code').parameters.jsCode = "return [{ json: { y: $('The \"set\"').first().json.x } }];"; }],
  ['unused node', branching, (w) => w.nodes.push(set('Alone', 'x'))],
  ['unused node with faults', branching, (w) => w.nodes.push(node('Alone', 'postgres', 2.5, {}))],
  ['disabled node with faults', branching, last('postgres', 2.5, {}, { disabled: true })],
  ['parameter that does not exist', branching, parameters('HTTP', { unknownThing: true })],
  ['option that does not exist', branching, parameters('HTTP', { options: { nothing: 1 } })],
  ['note with braces', branching, (w) => w.nodes.push(node('Note', 'stickyNote', 1, { content: 'write {{ $json.. }}' }))],
  ['credential of another n8n', branching, fields('HTTP', { credentials: { httpHeaderAuth: { id: 'gone', name: 'gone' } } })],
  ['optional chaining', branching, value('={{ $json.body?.kind ?? "none" }}')],
  ['object in an expression', branching, value('={{ JSON.stringify({ a: { b: 1 } }) }}')],
  ['regular expression', branching, value('={{ $json.body.kind.replace(/[({]+/g, "") }}')],
  ['code with regular expression', branching, code("const a = 'x'.replace(/['\"`(]/g, '');\nreturn [{ json: { a } }];")],
  ['code with template', branching, code('const a = `x ${[1, 2].map((n) => `${n}`)} }`;\nreturn [{ json: { a } }];')],
  ['code with comment', branching, code("// it's (\n/* { */ return [{ json: { a: 1 / 2 } }];")],
  ['code in Python style of JavaScript', branching, code('for (const item of $input.all()) { item.json.z = 1 }\nreturn $input.all()')],
  ['retry', branching, fields('HTTP', { retryOnFail: true, maxTries: 2 })],
  ['errors go on', branching, fields('HTTP', { onError: 'continueRegularOutput' })],
  ['error output', branching, (w) => { fields('HTTP', { onError: 'continueErrorOutput' })(w); w.connections.HTTP.main.push([to('Respond')]); }],
  ['old version of set', branching, last('set', 1, { values: { string: [{ name: 'a', value: 'b' }] } })],
  ['loop of the second version', looping, (w) => { fields('Loop', { typeVersion: 2 })(w); w.connections.Loop.main.reverse(); }],
  ['merge with one input', merging, (w) => { w.connections.B.main = [[]]; }],
  ['switch with its extra output', merging, (w) => { parameters('Switch', { options: { fallbackOutput: 'extra' } })(w); w.connections.Switch.main.push([to('A')]); }],
  ['switch by expression', merging, (w) => { of(w, 'Switch').parameters = { mode: 'expression', numberOutputs: 2, output: '={{ 1 }}' }; }],
  ['merge by position', merging, parameters('Merge', { mode: 'combine', combineBy: 'combineByPosition', options: {} })],
  ['time zone of its own', merging, (w) => { w.settings.timezone = 'Europe/Berlin'; }],
  ['connections of null', merging, (w) => { w.connections.A.main.unshift(null); w.connections.A.main.reverse(); }],
  ['path with a parameter', merging, (w) => { of(w, 'A').notes = 'x'; of(w, 'A').notesInFlow = true; }],
  ['once for all', merging, fields('A', { executeOnce: true, alwaysOutputData: true })],
];
