// A client on the official TypeScript SDK v1, which speaks the handshake era only.
// node typescript-v1.mjs --url URL --sdk 1.32|1.17 [--call NAME=JSON]...
import { readArguments, run } from './run.mjs';

const PACKAGES = { '1.32': '@modelcontextprotocol/sdk', 1.17: 'mcp-sdk-1.17' };

const { url, command, calls, chosen } = readArguments({ name: 'sdk', values: Object.keys(PACKAGES) });

await run(async () => {
  const { Client } = await import(`${PACKAGES[chosen]}/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${PACKAGES[chosen]}/client/streamableHttp.js`);
  const client = new Client({ name: 'typescript-v1', version: '1.0.0' }, { capabilities: {} });
  if (command) {
    const { StdioClientTransport } = await import(`${PACKAGES[chosen]}/client/stdio.js`);
    const pipes = new StdioClientTransport(command);
    let protocolVersion;
    pipes.setProtocolVersion = version => (protocolVersion = version);
    await client.connect(pipes);
    return { client, protocolVersion, goodbye: () => client.close() };
  }
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  const goodbye = async () => {
    await transport.terminateSession();
    await client.close();
  };
  return { client, protocolVersion: transport.protocolVersion, goodbye };
}, calls);
