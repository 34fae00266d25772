// Gives a test file what it expects of jest or vitest, made of node:test and the packages `expect` and `jest-mock`.
// Loaded with --require before the file.
'use strict';

const Module = require('node:module');
const test = require('node:test');

const find = (name) => {
  try {
    return require(require.resolve(name, { paths: ['/'] }));
  } catch {
    return {};
  }
};
const { expect } = find('expect');
const { fn, spyOn, restoreAllMocks } = find('jest-mock');

/** `it.each(rows)(name, body)`: a row that is no list is one argument; %s and the like stand for the arguments. */
function each(make) {
  return (rows) => (name, body) => {
    rows.forEach((row, at) => {
      const words = Array.isArray(row) ? row : [row];
      let next = 0;
      const named = String(name).replace(/%[sdifjop#]/g, (sign) => (sign === '%#' ? at : String(words[next++])));
      make(named, () => body(...words));
    });
  };
}

const bare = (body) => body && ((context) => (body.length ? new Promise((done) => body(done)) : body(context)));
const it = (name, body) => test.it(String(name), body ? () => bare(body)() : undefined);
it.skip = (name) => test.it.skip(String(name));
it.todo = (name) => test.it.todo(String(name));
it.each = each(it);
it.concurrent = it;
const describe = (name, body) => test.describe(typeof name === 'function' ? name.name : String(name), body);
describe.skip = (name) => test.describe.skip(String(name));
describe.each = each(describe);

const made = {
  it, test: it, describe, suite: describe, expect, beforeEach: test.beforeEach, afterEach: test.afterEach,
  beforeAll: test.before, afterAll: test.after, before: test.before, after: test.after,
};
const mocks = { fn, spyOn, restoreAllMocks };
Object.assign(globalThis, made, { jest: mocks, vi: mocks });

const load = Module._load;
Module._load = function loadOne(name, ...rest) {
  return name === 'vitest' || name === '@jest/globals' ? { ...made, jest: mocks, vi: mocks } : load.call(this, name, ...rest);
};
