// The server that the scenarios of @modelcontextprotocol/conformance are written for, on the official TypeScript SDK v2.
// node server.mjs [--port N] [--era dual|legacy|modern]     Port 0, the default, takes a free one.
//
// A Legacy-only server answers Modern requests as old servers do; a Modern-only one refuses everything else by naming
// the revision that it wants.
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
import { registerContentTools } from './content.mjs';
import { History } from './history.mjs';
import { registerPrompts, registerResources } from './offers.mjs';
import { registerQuestions, requestState } from './questions.mjs';

const { port, era } = parseArgs({
  options: { port: { type: 'string', default: '0' }, era: { type: 'string', default: 'dual' } },
}).values;

/** Session id → its server and transport. */
const sessions = new Map();
/** How often the lists were changed. */
const changes = { tools: 0, prompts: 0 };
const history = new History();

const modern = createMcpHandler(build, { onerror: error => console.error(error) });
const answerModern = toNodeHandler(modern);
const hostIsFine = localhostHostValidation();
const originIsFine = localhostOriginValidation();

const http = createServer(async (request, response) => {
  if (!hostIsFine(request, response) || !originIsFine(request, response)) return;
  const body = request.method === 'POST' ? await json(request).catch(() => undefined) : undefined;
  if (isModern(request, body)) {
    if (era === 'legacy') refuse(response, 400, { code: -32000, message: 'Bad Request: Unsupported protocol version' });
    else answerModern(request, response, body);
  } else if (era === 'modern') refuseLegacy(request, response, body);
  else await answerLegacy(request, response, body);
});
http.listen(Number(port), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${http.address().port}/mcp`);
});

function build() {
  const server = new McpServer(
    { name: 'conformance', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState,
    },
  );
  registerContentTools(server);
  registerQuestions(server);
  registerResources(server);
  registerPrompts(server);
  for (let number = 1; number <= changes.tools; number++) registerAddedTool(server, number);
  for (let number = 1; number <= changes.prompts; number++) registerAddedPrompt(server, number);
  registerTrigger(server, 'test_trigger_tool_change', () => {
    changes.tools++;
    for (const session of sessions.values()) registerAddedTool(session.server, changes.tools);
    modern.notify.toolsChanged();
  });
  registerTrigger(server, 'test_trigger_prompt_change', () => {
    changes.prompts++;
    for (const session of sessions.values()) registerAddedPrompt(session.server, changes.prompts);
    modern.notify.promptsChanged();
  });
  return server;
}

/** A tool that changes a list, of which everybody is told. */
function registerTrigger(server, name, change) {
  server.registerTool(name, { description: 'Changes a list' }, async () => {
    change();
    return { content: [{ type: 'text', text: 'changed' }] };
  });
}

function registerAddedTool(server, number) {
  const content = [{ type: 'text', text: 'added' }];
  server.registerTool(`added_tool_${number}`, { description: 'Added later' }, async () => ({ content }));
}

function registerAddedPrompt(server, number) {
  const content = { type: 'text', text: 'added' };
  server.registerPrompt(`added_prompt_${number}`, { description: 'Added later' }, async () => ({
    messages: [{ role: 'user', content }],
  }));
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

function refuseLegacy(request, response, body) {
  const error = {
    code: -32022,
    message: 'Unsupported protocol version',
    data: { supported: ['2026-07-28'], requested: body?.params?.protocolVersion },
  };
  refuse(response, request.method === 'POST' ? 400 : 405, error, body?.id);
}

async function answerLegacy(request, response, body) {
  const id = request.headers['mcp-session-id'];
  if (id === undefined && isInitializeRequest(body)) {
    const transport = await openSession();
    return transport.handleRequest(request, response, body);
  }
  const session = sessions.get(id);
  if (session) return session.transport.handleRequest(request, response, body);
  if (id === undefined) refuse(response, 400, { code: -32000, message: 'Bad Request: session required' });
  else refuse(response, 404, { code: -32001, message: 'Session not found' });
}

async function openSession() {
  const server = build();
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: history,
    retryInterval: 500,
    onsessioninitialized: id => sessions.set(id, { server, transport }),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await server.connect(transport);
  return transport;
}

function refuse(response, status, error, id = null) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
}
