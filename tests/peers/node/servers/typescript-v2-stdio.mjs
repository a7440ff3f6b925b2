// A server on the official TypeScript SDK v2 over stdio, both eras.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { registerEcho } from './tools.mjs';

void serveStdio(() => {
  const server = new McpServer({ name: 'typescript-v2-stdio', version: '1.0.0' });
  registerEcho(server);
  return server;
});
