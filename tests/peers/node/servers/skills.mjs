// A server of skills (Skills extension) on the official TypeScript SDK v2, of both eras, over Streamable HTTP.
// node skills.mjs --directory DIR [--prefix PREFIX] [--page N]     The address is printed once it listens.
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

const { directory, prefix, page } = parseArgs({
  options: { directory: { type: 'string' }, prefix: { type: 'string' }, page: { type: 'string' } },
}).values;

const skills = await loadSkills(directory, {
  ...(prefix && { prefix }),
  ...(page && { pageSize: Number(page) }),
  onWarning: warning => console.error(warning),
});
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'skills', version: '1.0.0' }, { capabilities: { resources: {} } });
  skills.attach(server);
  return server;
});
const http = createServer(toNodeHandler(handler));
http.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}/mcp`));
