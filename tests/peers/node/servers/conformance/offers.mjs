// The resources and prompts of the conformance scenarios, and what goes with them.
import { acceptedContent, inputRequired, ResourceTemplate } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';
import { image, PNG, resource, text } from './content.mjs';

export function registerResources(server) {
  const register = (name, uri, mimeType, content) => {
    server.registerResource(name, uri, { description: name, mimeType }, async ({ href }, variables) => ({
      contents: [{ uri: href, mimeType, ...content(variables) }],
    }));
  };
  const words = 'This is the content of the static text resource.';
  register('static-text', 'test://static-text', 'text/plain', () => ({ text: words }));
  register('static-binary', 'test://static-binary', 'image/png', () => ({ blob: PNG }));
  register('watched-resource', 'test://watched-resource', 'text/plain', () => ({ text: 'watched' }));
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  register('template', template, 'application/json', ({ id }) => ({
    text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
  }));
  server.server.setRequestHandler('resources/subscribe', async () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
}

export function registerPrompts(server) {
  const string = z.string();
  server.registerPrompt('test_simple_prompt', { description: 'Without arguments' }, async () =>
    said(text('This is a simple prompt for testing.')),
  );
  const two = { description: 'With two arguments', argsSchema: z.object({ arg1: string, arg2: string }) };
  server.registerPrompt('test_prompt_with_arguments', two, async ({ arg1, arg2 }) =>
    said(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  const embedded = { description: 'With a resource', argsSchema: z.object({ resourceUri: string }) };
  server.registerPrompt('test_prompt_with_embedded_resource', embedded, async ({ resourceUri }) =>
    said(
      resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
      text('Please process the embedded resource above.'),
    ),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'With an image' }, async () =>
    said(image(), text('Please analyze the image above.')),
  );
  const asking = { description: 'Asks for a context first' };
  server.registerPrompt('test_input_required_result_prompt', asking, async ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, 'user_context');
    if (answer) return said(text(`With context ${JSON.stringify(answer)}`));
    const requestedSchema = { type: 'object', properties: { context: { type: 'string' } }, required: ['context'] };
    return inputRequired({
      inputRequests: { user_context: inputRequired.elicit({ message: 'Which context?', requestedSchema }) },
    });
  });
  const values = ['paris', 'park', 'party'];
  server.server.setRequestHandler('completion/complete', async () => ({
    completion: { values, total: values.length, hasMore: false },
  }));
}

function said(...contents) {
  return { messages: contents.map(content => ({ role: 'user', content })) };
}
