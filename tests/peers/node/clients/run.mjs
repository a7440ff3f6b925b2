// What all TypeScript clients share: their arguments, and the one summary line they end with.
import { parseArgs } from 'node:util';

const STDIO = 'stdio:';

/**
 * Reads the command line: `--url URL`, any number of `--call NAME=JSON`, and `choice`, one more option with the values
 * it may have. In place of an address, `stdio:` and a JSON array of words is a program to start. Ends the process with status 2 and the usage where it is not that.
 */
export function readArguments(choice) {
  const usage = `usage: --url URL --${choice.name} ${choice.values.join('|')} [--call NAME=JSON]...`;
  try {
    const { values } = parseArgs({
      options: {
        url: { type: 'string' },
        call: { type: 'string', multiple: true, default: [] },
        [choice.name]: { type: 'string' },
      },
    });
    if (!choice.values.includes(values[choice.name])) throw new Error(`unknown ${choice.name}`);
    const started = values.url.startsWith(STDIO) ? JSON.parse(values.url.slice(STDIO.length)) : undefined;
    return {
      url: started ? undefined : new URL(values.url),
      command: started && { command: started[0], args: started.slice(1) },
      calls: values.call.map(readCall),
      chosen: values[choice.name],
    };
  } catch (error) {
    console.error(`${error.message}\n${usage}`);
    process.exit(2);
  }
}

/**
 * Connects by `connect`, lists all tools, makes the calls one after the other, and prints what was seen as one line of
 * JSON. Ends the process with status 0, or with 1 and the error in that line.
 *
 * `connect` gives the connected client, the negotiated protocol version, and a function that says goodbye.
 */
export async function run(connect, calls) {
  const summary = {};
  try {
    const { client, protocolVersion, goodbye } = await connect();
    summary.protocolVersion = protocolVersion;
    summary.tools = await listTools(client);
    summary.calls = [];
    for (const { name, arguments: given } of calls) {
      const result = await client.callTool({ name, arguments: given });
      summary.calls.push({ name, isError: result.isError === true, text: textOf(result) });
    }
    await goodbye();
  } catch (error) {
    console.error(error);
    summary.error = String(error);
  }
  console.log(JSON.stringify(summary));
  process.exit(summary.error === undefined ? 0 : 1);
}

async function listTools(client) {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    names.push(...page.tools.map(tool => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return names;
}

function readCall(text) {
  const end = text.indexOf('=');
  if (end < 1) throw new Error(`--call ${text} is not NAME=JSON`);
  return { name: text.slice(0, end), arguments: JSON.parse(text.slice(end + 1)) };
}

function textOf(result) {
  return (result.content ?? []).map(block => block.text ?? '').join('');
}
