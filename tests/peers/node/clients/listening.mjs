// A client on the official TypeScript SDK v2 that hears of changed tools: prints the names of all tools as one line of
// JSON, at first and whenever it hears that they changed, until it is ended.
// node listening.mjs --url URL --mode modern|legacy
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { parseArgs } from 'node:util';

const { url, mode } = parseArgs({ options: { url: { type: 'string' }, mode: { type: 'string' } } }).values;

const negotiated = mode === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
const tell = tools => console.log(JSON.stringify(tools.map(({ name }) => name)));
const onChanged = (error, tools) => {
  if (error) throw error;
  tell(tools);
};
const client = new Client(
  { name: 'listener', version: '1.0.0' },
  { versionNegotiation: { mode: negotiated }, listChanged: { tools: { onChanged } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
tell((await client.listTools()).tools);
