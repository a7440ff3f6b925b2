// A host of skills (Skills extension) on the official TypeScript SDK v2: lists and gets every skill, reads every file of
// it, and lets the SDK verify length, digest and frontmatter. Prints what it saw as one line of JSON; ends with status 1
// where anything is refused.
// node skills.mjs --url URL --mode modern|legacy
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { parseArgs } from 'node:util';

const { url, mode } = parseArgs({ options: { url: { type: 'string' }, mode: { type: 'string' } } }).values;

const negotiated = mode === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
const client = new Client({ name: 'skills-host', version: '1.0.0' }, { versionNegotiation: { mode: negotiated } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const skills = new SkillsClient(client);
const seen = { era: client.getProtocolEra(), directoryRead: skills.directoryRead === true, skills: {} };
for (const entry of (await skills.list()).skills) {
  const { skill } = await skills.get(entry.uri);
  if (JSON.stringify(skill) !== JSON.stringify(entry)) throw new Error(`skills/get differs: ${entry.uri}`);
  const files = [];
  for (const { uri } of entry.resources) {
    if (!(await skills.read(entry, uri)).verified) throw new Error(`not verified: ${uri}`);
    files.push(uri);
  }
  const root = entry.uri.replace(/\/SKILL\.md$/, '');
  const children = skills.directoryRead ? (await skills.readDirectory(root)).resources.map(({ uri }) => uri) : [];
  seen.skills[entry.uri] = { name: entry.frontmatter.name, files: files.sort(), children: children.sort() };
}
await client.close();
console.log(JSON.stringify(seen));
