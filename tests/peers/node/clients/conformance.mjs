// The client of a conformance *client* scenario, on the official TypeScript SDK v2, with the gateway in between:
// the suite is the server, and judges what the gateway sends it.
// node conformance.mjs MCPFLEET MANIFESTS URL      The suite adds the address of its server, which stands in the
// manifests as "URL", and says in the environment which scenario it is.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [program, manifests, upstream] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const isModern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === '2026-07-28';
/** What the suite wants to be called, where it says so. */
const wanted = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}').toolCalls;

/** What to do in each scenario; the others call every tool there is. */
const scenarios = {
  initialize: async () => {},
  tools_call: () => call('add_numbers', { a: 5, b: 3 }),
  'json-schema-2020-12-preservation': async tools => {
    const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
    await call('json_schema_echo', { schema: inputSchema });
  },
  'http-standard-headers': useEverything,
  'http-custom-headers': callWanted,
  'http-invalid-tool-headers': callWanted,
};

writeFileSync(manifests, readFileSync(manifests, 'utf8').replace('"URL"', JSON.stringify(upstream)));
const gateway = spawn(program, ['up', manifests, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => gateway.kill());
// The suite waits longer, but ends the shell above us only.
setTimeout(() => process.exit(3), 15_000).unref();

const client = new Client(
  { name: 'conformance', version: '1.0.0' },
  {
    versionNegotiation: { mode: isModern ? { pin: '2026-07-28' } : 'legacy' },
    capabilities: { roots: { listChanged: true }, sampling: {}, elicitation: { form: { applyDefaults: true } } },
  },
);
client.setRequestHandler('elicitation/create', async ({ params }) => ({ action: 'accept', content: fill(params) }));
client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///workspace', name: 'workspace' }] }));
client.setRequestHandler('sampling/createMessage', async () => ({
  role: 'assistant',
  model: 'test',
  content: { type: 'text', text: 'ok' },
}));

await client.connect(new StreamableHTTPClientTransport(await start()));
const { tools } = await client.listTools();
await (scenarios[scenario] ?? callEach)(tools);
await client.close();
process.exit(0);

/** Waits until the gateway has the server's catalog, and gives its endpoint. */
async function start() {
  let endpoint;
  for await (const line of createInterface(gateway.stdout)) {
    endpoint ??= line.match(/http:\S+\/conformance\/mcp/)?.[0];
    if (line.startsWith('server mock ready') && endpoint) return new URL(endpoint);
  }
  throw new Error('the gateway ended');
}

async function call(name, given = {}) {
  await client.callTool({ name, arguments: given });
}

/** Some servers of the suite answer with errors on purpose. */
async function attempt(attempted) {
  try {
    await attempted;
  } catch (error) {
    console.error(error.message);
  }
}

async function callEach(tools) {
  for (const { name } of tools) await attempt(call(name));
}

async function callWanted(tools) {
  const calls = wanted ?? tools.map(({ name }) => ({ name, arguments: { region: 'us-west1', value: 'x' } }));
  for (const { name, arguments: given } of calls) await attempt(call(name, given));
}

async function useEverything(tools) {
  if (tools.length > 0) await attempt(call(tools[0].name));
  const { resources } = await client.listResources();
  if (resources.length > 0) await attempt(client.readResource({ uri: resources[0].uri }));
  const { prompts } = await client.listPrompts();
  if (prompts.length > 0) await attempt(client.getPrompt({ name: prompts[0].name, arguments: {} }));
}

/** An answer to a form: nothing where its defaults are the point, else a value of each type. */
function fill({ requestedSchema }) {
  if (scenario.startsWith('elicitation')) return {};
  const value = ({ type }) => ({ boolean: true, string: 'test' })[type] ?? 1;
  return Object.fromEntries(Object.entries(requestedSchema?.properties ?? {}).map(([name, of]) => [name, value(of)]));
}
