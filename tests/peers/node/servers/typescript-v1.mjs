// A server on the official TypeScript SDK v1, the handshake era only, over Streamable HTTP without sessions, or stdio.
// node typescript-v1.mjs [--port N | --stdio]     Port 0, the default, takes a free one, and the address is printed.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { registerEcho } from './tools.mjs';

const { port, stdio } = parseArgs({
  options: { port: { type: 'string', default: '0' }, stdio: { type: 'boolean', default: false } },
}).values;

if (stdio) await build().connect(new StdioServerTransport());
else listen();

function listen() {
  const http = createServer(async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    response.on('close', () => transport.close());
    await build().connect(transport);
    await transport.handleRequest(request, response);
  });
  http.listen(Number(port), '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${http.address().port}/mcp`);
  });
}

function build() {
  const server = new McpServer({ name: 'typescript-v1-server', version: '1.0.0' });
  registerEcho(server);
  return server;
}
