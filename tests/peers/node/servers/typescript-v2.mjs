// A server on the official TypeScript SDK v2 over Streamable HTTP: Legacy with sessions, and Modern, on one endpoint.
// node typescript-v2.mjs [--port N]     Port 0, the default, takes a free one. The address is printed once it listens.
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
} from '@modelcontextprotocol/node';
import { classifyInboundRequest, createMcpHandler, isInitializeRequest, McpServer } from '@modelcontextprotocol/server';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import * as tools from './tools.mjs';

const { port } = parseArgs({ options: { port: { type: 'string', default: '0' } } }).values;

/** Session id → its server and transport. */
const sessions = new Map();
let added = 0;

const modern = createMcpHandler(build, { onerror: error => console.error(error) });
const answerModern = toNodeHandler(modern);
const hostIsFine = localhostHostValidation();
const originIsFine = localhostOriginValidation();

const http = createServer(async (request, response) => {
  if (!hostIsFine(request, response) || !originIsFine(request, response)) return;
  const body = request.method === 'POST' ? await json(request).catch(() => undefined) : undefined;
  if (isModern(request, body)) answerModern(request, response, body);
  else await answerLegacy(request, response, body);
});
http.listen(Number(port), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${http.address().port}/mcp`);
});

function build() {
  const server = new McpServer(
    { name: 'typescript-v2-server', version: '1.0.0' },
    {
      capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} },
      instructions: 'A server for tests.',
    },
  );
  tools.registerEcho(server);
  tools.registerSlow(server);
  tools.registerQuery(server);
  tools.registerStructured(server);
  tools.registerQuestion(server);
  tools.registerGrowth(server, grow);
  for (let number = 0; number < added; number++) tools.registerAdded(server, number);
  server.registerResource('static', 'test://static-text', { mimeType: 'text/plain' }, async uri => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'static' }],
  }));
  return server;
}

/** Adds a tool for everybody: Modern servers are built for each request, Legacy ones live in their session. */
function grow() {
  for (const { server } of sessions.values()) tools.registerAdded(server, added);
  added++;
  modern.notify.toolsChanged();
}

function isModern(request, body) {
  if (request.method !== 'POST') return false;
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    protocolVersionHeader: request.headers['mcp-protocol-version'],
    mcpMethodHeader: request.headers['mcp-method'],
    body,
  });
  return kind !== 'legacy';
}

async function answerLegacy(request, response, body) {
  const id = request.headers['mcp-session-id'];
  if (id === undefined && isInitializeRequest(body)) {
    const transport = await openSession();
    return transport.handleRequest(request, response, body);
  }
  const session = sessions.get(id);
  if (session) return session.transport.handleRequest(request, response, body);
  if (id === undefined) refuse(response, 400, -32000, 'Bad Request: session required');
  else refuse(response, 404, -32001, 'Session not found');
}

async function openSession() {
  const server = build();
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => sessions.set(id, { server, transport }),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await server.connect(transport);
  return transport;
}

function refuse(response, status, code, message) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }));
}
