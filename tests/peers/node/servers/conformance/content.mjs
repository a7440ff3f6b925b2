// The tools of the conformance scenarios that just answer, log, or tell of their progress.
import { fromJsonSchema } from '@modelcontextprotocol/server';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod/v4';

/** One red pixel. */
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
/** A recording of no length: the header of a WAV file and no samples. */
const WAV = Buffer.from(
  'RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0',
  'latin1',
).toString('base64');

const string = { type: 'string' };

export function registerContentTools(server) {
  const answers = {
    test_simple_text: [text('This is a simple text response for testing.')],
    test_image_content: [image()],
    test_audio_content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }],
    test_embedded_resource: [
      resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
    ],
    test_multiple_content_types: [
      text('Multiple content types test:'),
      image(),
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
    test_streaming_elicitation: [text('no question on the way')],
  };
  for (const [name, content] of Object.entries(answers)) {
    server.registerTool(name, { description: 'Answers with content' }, async () => ({ content }));
  }
  server.registerTool('test_error_handling', { description: 'Always fails' }, async () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  registerTalkers(server);
  registerReaders(server);
}

export function text(words) {
  return { type: 'text', text: words };
}

export function image() {
  return { type: 'image', data: PNG, mimeType: 'image/png' };
}

export function resource(uri, mimeType, words) {
  return { type: 'resource', resource: { uri, mimeType, text: words } };
}

/** Tools that say something before they answer. */
function registerTalkers(server) {
  const inputSchema = z.object({});
  const logging = { description: 'Logs three messages', inputSchema };
  server.registerTool('test_tool_with_logging', logging, async (_given, { mcpReq }) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
      await sleep(50);
    }
    return { content: [text('logged')] };
  });
  const onDemand = { description: 'Logs where the request asks for it', inputSchema };
  server.registerTool('test_logging_tool', onDemand, async (_given, { mcpReq }) => {
    await mcpReq.log('info', 'ran');
    return { content: [text('ran')] };
  });
  const progress = { description: 'Tells of its progress', inputSchema };
  server.registerTool('test_tool_with_progress', progress, async (_given, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const step of progressToken === undefined ? [] : [0, 50, 100]) {
      const params = { progressToken, progress: step, total: 100, message: `${step} of 100` };
      await mcpReq.notify({ method: 'notifications/progress', params });
      await sleep(50);
    }
    return { content: [text(String(progressToken))] };
  });
  const lost = { description: 'Loses its event stream in the middle', inputSchema };
  server.registerTool('test_reconnection', lost, async (_given, context) => {
    await sleep(50);
    context.http?.closeSSE?.();
    await sleep(100);
    return { content: [text('Reconnection test completed successfully.')] };
  });
}

/** Tools whose input schema matters. */
function registerReaders(server) {
  const back = async given => ({ content: [text(JSON.stringify(given))] });
  const repeated = fromJsonSchema({
    type: 'object',
    properties: {
      region: { ...string, 'x-mcp-header': 'Region' },
      priority: { type: 'integer', 'x-mcp-header': 'Priority' },
      query: string,
    },
  });
  const headers = { description: 'Two arguments are repeated in headers', inputSchema: repeated };
  server.registerTool('test_x_mcp_header', headers, back);
  const keywords = fromJsonSchema({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
    properties: {
      name: string,
      address: { $ref: '#/$defs/address' },
      contactMethod: { ...string, enum: ['phone', 'email'] },
      phone: string,
      email: string,
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  });
  const schema = { description: 'Uses many keywords of JSON Schema', inputSchema: keywords };
  server.registerTool('json_schema_2020_12_tool', schema, back);
}
