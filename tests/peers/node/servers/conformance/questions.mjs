// The tools of the conformance scenarios that ask the client for something. Most of them answer with what they need,
// and the SDK asks Legacy clients for it, all questions of one answer at a time. The first ones know both ways.
import { acceptedContent, CLIENT_CAPABILITIES_META_KEY, createRequestStateCodec, inputRequired } from '@modelcontextprotocol/server';
import { randomBytes } from 'node:crypto';
import * as z from 'zod/v4';
import { text } from './content.mjs';

const sealed = createRequestStateCodec({ key: randomBytes(32) });

/** How the SDK checks the state that a client brings back. */
export const requestState = { verify: sealed.verify };

const string = { type: 'string' };
const asked = {
  name: form('What is your name?', { name: string }),
  confirmation: form('Go on?', { ok: { type: 'boolean' } }),
};

export function registerQuestions(server) {
  registerDirectQuestions(server);
  registerForms(server);
  const register = (name, answer) => {
    const config = { description: 'Needs input', inputSchema: z.object({}) };
    server.registerTool(`test_input_required_result_${name}`, config, async (_given, { mcpReq }) => answer(mcpReq));
  };

  register('elicitation', ({ inputResponses }) => {
    const answer = acceptedContent(inputResponses, 'user_name');
    if (typeof answer?.name === 'string') return said(`Hello, ${answer.name}!`);
    return inputRequired({ inputRequests: { user_name: elicit(asked.name) } });
  });
  register('sampling', ({ inputResponses }) => {
    const answer = inputResponses?.capital_question;
    if (answer) return said(answer.content?.text ?? '');
    return inputRequired({ inputRequests: { capital_question: sample('What is the capital of France?') } });
  });
  register('list_roots', ({ inputResponses }) => {
    const roots = inputResponses?.client_roots?.roots;
    if (roots) return said(roots.map(({ uri }) => uri).join(' '));
    return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  });
  for (const name of ['request_state', 'tampered_state']) {
    register(name, async ({ inputResponses, requestState }) => {
      if (requestState()?.of === name && inputResponses?.confirm) return said('state-ok');
      const state = await sealed.mint({ of: name });
      return inputRequired({ inputRequests: { confirm: elicit(asked.confirmation) }, requestState: state });
    });
  }
  register('multiple_inputs', async ({ inputResponses = {} }) => {
    if (['user_name', 'greeting', 'client_roots'].every(key => inputResponses[key])) return said('all three');
    return inputRequired({
      inputRequests: {
        user_name: elicit(asked.name),
        greeting: sample('Greet'),
        client_roots: inputRequired.listRoots(),
      },
      requestState: await sealed.mint({ of: 'multiple_inputs' }),
    });
  });
  register('multi_round', async ({ inputResponses = {}, requestState }) => {
    const { round } = requestState() ?? {};
    if (round === 2 && inputResponses.step2) return said('two rounds done');
    const next = round === 1 && inputResponses.step1 ? 2 : 1;
    return inputRequired({
      inputRequests: { [`step${next}`]: elicit(next === 1 ? asked.name : asked.confirmation) },
      requestState: await sealed.mint({ round: next }),
    });
  });
  register('capabilities', ({ inputResponses, envelope }) => {
    if (inputResponses) return said('thank you');
    const client = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? server.server.getClientCapabilities() ?? {};
    const inputRequests = {
      ...(client.elicitation && { user_name: elicit(asked.name) }),
      ...(client.sampling && { greeting: sample('Greet') }),
      ...(client.roots && { client_roots: inputRequired.listRoots() }),
    };
    return Object.keys(inputRequests).length > 0 ? inputRequired({ inputRequests }) : said('nothing to ask with');
  });
}

/** Tools that ask as the client's era does it. */
function registerDirectQuestions(server) {
  const sampling = { description: 'Asks the client for a completion', inputSchema: z.object({ prompt: z.string() }) };
  server.registerTool('test_sampling', sampling, async ({ prompt }, context) => {
    const question = { method: 'sampling/createMessage', params: conversation(prompt) };
    return ask(context, question, answer => said(`LLM response: ${answer.content.text}`));
  });
  const needy = { description: 'Asks for a completion whoever the client is', inputSchema: z.object({}) };
  server.registerTool('test_missing_capability', needy, async (_given, context) => {
    const question = { method: 'sampling/createMessage', params: conversation('Say pong') };
    return ask(context, question, () => said('pong'));
  });
}

/** Tools that show a form. */
function registerForms(server) {
  const register = (name, inputSchema, words, formOf) => {
    const config = { description: 'Shows a form', inputSchema };
    server.registerTool(name, config, async (given, context) => {
      const question = { method: 'elicitation/create', params: formOf(given) };
      return ask(context, question, ({ action, content = {} }) =>
        said(`${words}: action=${action}, content=${JSON.stringify(content)}`),
      );
    });
  };
  register('test_elicitation', z.object({ message: z.string() }), 'User response', ({ message }) =>
    form(message, {
      username: { ...string, description: "User's response" },
      email: { ...string, description: "User's email address" },
    }),
  );
  const none = z.object({});
  register('test_elicitation_sep1034_defaults', none, 'Elicitation completed', () =>
    form('Are these right?', defaults(), []),
  );
  register('test_elicitation_sep1330_enums', none, 'Elicitation completed', () => form('Choose', choices(), []));
}

/** Asks `question` in the middle of the call, or answers with it, and gives what `finish` makes of the answer. */
async function ask({ mcpReq }, question, finish) {
  const answer = mcpReq.envelope ? mcpReq.inputResponses?.answer : await mcpReq.send(question);
  if (answer) return finish(answer);
  const embed = question.method === 'elicitation/create' ? elicit : inputRequired.createMessage;
  return inputRequired({ inputRequests: { answer: embed(question.params) } });
}

function elicit(params) {
  return inputRequired.elicit(params);
}

function sample(words) {
  return inputRequired.createMessage(conversation(words));
}

function conversation(words) {
  return { messages: [{ role: 'user', content: text(words) }], maxTokens: 100 };
}

function form(message, properties, required = Object.keys(properties)) {
  return { message, requestedSchema: { type: 'object', properties, required } };
}

/** A property of each type, with a default. */
function defaults() {
  return {
    name: { ...string, default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { ...string, enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  };
}

/** A choice in each of its forms. */
function choices() {
  const three = of => [1, 2, 3].map(of);
  const values = three(number => `option${number}`);
  const titled = words => three(number => ({ const: `value${number}`, title: `${words} ${number}` }));
  const several = items => ({ type: 'array', minItems: 1, maxItems: 3, items });
  return {
    untitledSingle: { ...string, enum: values },
    titledSingle: { ...string, oneOf: titled('Single') },
    legacyEnum: {
      ...string,
      enum: three(number => `opt${number}`),
      enumNames: three(number => `Option ${number}`),
    },
    untitledMulti: several({ ...string, enum: values }),
    titledMulti: several({ anyOf: titled('Multi') }),
  };
}

function said(words) {
  return { content: [text(words)] };
}
