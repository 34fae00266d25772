// A reporter of node:test: one JSON line per test that ended, with the names of what it stands in.
import { inspect } from 'node:util';

const clean = (name) => String(name).replace(/\s+/g, ' ').trim();

export default async function* report(source) {
  const names = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      names.length = data.nesting;
      names[data.nesting] = clean(data.name);
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const name = [...names.slice(0, data.nesting), clean(data.name)].join(' > ');
    const error = data.details?.error;
    const inner = error?.code === 'ERR_TEST_FAILURE' && error.failureType === 'subtestsFailed';
    if (data.details?.type === 'suite' && (type === 'test:pass' || inner)) continue;
    const status = data.skip !== undefined || data.todo !== undefined ? 'skip' : type === 'test:pass' ? 'pass' : 'fail';
    const cause = error?.cause ?? error;
    const said = type === 'test:fail' ? cause?.message ?? inspect(cause) : '';
    yield `${JSON.stringify({ name, status, said: String(said).slice(0, 1500) })}\n`;
  }
}
