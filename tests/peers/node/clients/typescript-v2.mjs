// A client on the official TypeScript SDK v2, which speaks both eras.
// node typescript-v2.mjs --url URL --mode legacy|auto|modern [--call NAME=JSON]...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { readArguments, run } from './run.mjs';

const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

const { url, command, calls, chosen } = readArguments({ name: 'mode', values: Object.keys(MODES) });

await run(async () => {
  const client = new Client(
    { name: 'typescript-v2', version: '1.0.0' },
    { capabilities: {}, versionNegotiation: { mode: MODES[chosen] } },
  );
  await client.connect(command ? new StdioClientTransport(command) : new StreamableHTTPClientTransport(url));
  return { client, protocolVersion: client.getNegotiatedProtocolVersion(), goodbye: () => client.close() };
}, calls);
