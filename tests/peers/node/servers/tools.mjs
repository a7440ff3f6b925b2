// The tools of our servers on the official TypeScript SDK v2.
import { acceptedContent, fromJsonSchema, inputRequired } from '@modelcontextprotocol/server';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod/v4';

/** Answers with its argument. */
export function registerEcho(server) {
  const input = z.object({ message: z.string() });
  const config = { description: 'Echo', inputSchema: input, annotations: { readOnlyHint: true } };
  server.registerTool('echo', config, async ({ message }) => text(message));
}

/** Takes its time, tells its progress, and stops when the caller cancels. */
export function registerSlow(server) {
  const input = z.object({ steps: z.number().int(), delayMs: z.number().int() });
  server.registerTool('slow', { description: 'Slow, with progress', inputSchema: input }, async (given, context) => {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (let step = 1; step <= given.steps; step++) {
      await sleep(given.delayMs);
      if (context.mcpReq.signal?.aborted) return text('aborted');
      if (progressToken === undefined) continue;
      const params = { progressToken, progress: step, total: given.steps };
      await context.mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text(`done ${given.steps}`);
  });
}

/** Wants one argument repeated in the header `Mcp-Param-Region`. */
export function registerQuery(server) {
  const string = { type: 'string' };
  const inputSchema = fromJsonSchema({
    type: 'object',
    properties: { region: { ...string, 'x-mcp-header': 'Region' }, query: string },
    required: ['region', 'query'],
  });
  const config = { description: 'One argument goes to a header', inputSchema };
  server.registerTool('execute_sql', config, async ({ region, query }) => text(`${region}: ${query}`));
}

/** Answers with structured content. */
export function registerStructured(server) {
  const config = {
    description: 'Structured output',
    inputSchema: z.object({ n: z.number() }),
    outputSchema: z.object({ square: z.number() }),
  };
  server.registerTool('structured', config, async ({ n }) => ({
    ...text(String(n * n)),
    structuredContent: { square: n * n },
  }));
}

/** Asks the person at the client, and goes on when the answer comes. */
export function registerQuestion(server) {
  const config = { description: 'Asks for a name', inputSchema: z.object({}) };
  server.registerTool('ask_name', config, async (_given, context) => {
    const answer = acceptedContent(context.mcpReq.inputResponses, 'who');
    if (answer) return text(`hello ${answer.name}`);
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const who = inputRequired.elicit({ message: 'Your name?', requestedSchema });
    return inputRequired({ inputRequests: { who } });
  });
}

/** Calls `grow`, which adds a tool and tells the clients. */
export function registerGrowth(server, grow) {
  const config = { description: 'Adds a tool', inputSchema: z.object({}) };
  server.registerTool('add_tool', config, async () => {
    grow();
    return text('added');
  });
}

/** One of the tools that `add_tool` adds. */
export function registerAdded(server, number) {
  const config = { description: 'Added at run time', inputSchema: z.object({}) };
  server.registerTool(`added_${number}`, config, async () => text(`added ${number}`));
}

function text(words) {
  return { content: [{ type: 'text', text: words }] };
}
