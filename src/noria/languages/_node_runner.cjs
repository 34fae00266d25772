// Runs test files under Node, each in a process of its own, and writes one JSON line per event (see _lines.py).
//
//     node _node_runner.cjs REPORT '{"limit_s": 20, "cover": false, "root": "/workspace", "files": [[path, kind], ...]}'
//
// Kinds: "node" (node:test), "expect" (the same in the words of jest or vitest), "tape" (TAP on the standard output), "mocha" (its JSON reporter), "plain" (the exit code).
// With "cover", {"lines": {file: {path: [line, ...]}}} says which lines the tests of a file run.
'use strict';

const { spawnSync } = require('node:child_process');
const { createHmac } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const MAX_SAID = 1500;
const [report, given] = process.argv.slice(2);
const options = JSON.parse(given);
const output = fs.openSync(report, 'wx');
const root = options.root;

// With a key beside the report each line is sealed: what test files write there themselves then counts as nothing.
const sealed = path.join(path.dirname(report), '.key');
const key = fs.existsSync(sealed) ? fs.readFileSync(sealed) : null;
if (key) fs.unlinkSync(sealed);
let count = 0;

function write(line) {
  const text = JSON.stringify(line);
  const seal = key ? `${createHmac('sha256', key).update(`${count}:${text}`).digest('hex')} ` : '';
  count += 1;
  fs.writeSync(output, `${seal}${text}\n`);
}
const short = (text) => String(text || '').slice(0, MAX_SAID);

/** Ids of one file: a name that comes again gets a number. */
function naming(file) {
  const seen = new Map();
  return (name) => {
    const plain = String(name).replace(/\s+/g, ' ').trim();
    const count = (seen.get(plain) || 0) + 1;
    seen.set(plain, count);
    return `${file}::${plain}${count > 1 ? `#${count}` : ''}`;
  };
}

/** What a run of tape said, test by test: [name, passed, message]. */
function readTap(text) {
  const found = [];
  let current = null;
  let block = null;
  for (const line of text.split('\n')) {
    if (/^1\.\.\d+/.test(line)) break;
    const name = /^# (.*)/.exec(line);
    const result = /^(not )?ok \d+ ?(.*)/.exec(line);
    if (block !== null) {
      if (/^ +\.\.\.$/.test(line)) block = null;
      else if (current && !current.told && /^ +(expected|actual|operator|message|error):/.test(line)) {
        current.said += `${line.trim()} `;
      } else if (current && !current.told && /^ +stack:/.test(line)) current.told = true;
    } else if (/^ +---$/.test(line)) {
      block = true;
    } else if (name) {
      current = { name: name[1], ok: true, asserts: 0, said: '', told: false };
      found.push(current);
    } else if (result) {
      if (current === null) {
        current = { name: 'top', ok: true, asserts: 0, said: '', told: false };
        found.push(current);
      }
      current.asserts += 1;
      if (result[1] && !/# (todo|skip)/i.test(result[2])) {
        if (!current.ok) current.told = true;
        else current.said = `${result[2].replace(/^- /, '')}: `;
        current.ok = false;
      }
    }
  }
  return found.filter((each) => each.asserts);
}

/** What mocha's JSON reporter said. */
function readMocha(text) {
  try {
    const whole = JSON.parse(text);
    const failed = new Set(whole.failures.map((each) => each.fullTitle));
    const pending = new Set(whole.pending.map((each) => each.fullTitle));
    return whole.tests.map((each) => ({
      name: each.fullTitle,
      status: failed.has(each.fullTitle) ? 'fail' : pending.has(each.fullTitle) ? 'skip' : 'pass',
      said: (each.err && each.err.message) || '',
    }));
  } catch {
    return [];
  }
}

// Where a reporter can write to a file, what sources print does not get into its report.
const WORDS = {
  node: (file, to) => [`--test-reporter=${__dirname}/_node_reporter.mjs`, `--test-reporter-destination=${to}`, file],
  expect: (file, to) => ['--require', `${__dirname}/_node_expect.cjs`, ...WORDS.node(file, to)],
  tape: (file) => [file],
  plain: (file) => [file],
  mocha: (file, to) => [
    require.resolve('mocha/bin/mocha.js', { paths: [root] }), '--no-config', '--no-package', '--reporter', 'json',
    '--reporter-option', `output=${to}`, file,
  ],
};

/** TypeScript runs as the JavaScript that was made of it. */
const scriptOf = (file) => (options.compiled ? file.replace(/(\.[cm]?)tsx?$/, '$1js') : file);

function run(file, kind, scratch) {
  const to = path.join(scratch, 'report');
  const id = naming(file);
  const began = process.hrtime.bigint();
  const seconds = Math.max(2, Math.ceil(options.limit_s));
  const env = { ...process.env, NODE_OPTIONS: '', FORCE_COLOR: '0', NO_COLOR: '1' };
  if (options.cover) env.NODE_V8_COVERAGE = path.join(scratch, 'cover');
  // Processor time counts, so that a busy machine makes no test slow; who waits gets more, but not for ever.
  const words = ['-c', 'ulimit -t "$1"; shift; exec "$@"', 'sh', String(seconds), process.execPath];
  const done = spawnSync('/bin/sh', [...words, ...WORDS[kind](scriptOf(file), to)], {
    cwd: root, env, encoding: 'utf8', timeout: 6000 * seconds, killSignal: 'SIGKILL', maxBuffer: 64 << 20,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const took = Number(Number(process.hrtime.bigint() - began) / 1e9).toFixed(4);
  if (done.signal === 'SIGXCPU' || done.signal === 'SIGKILL' || (done.error && done.error.code === 'ETIMEDOUT')) {
    write({ slow: file });
    return;
  }
  const told = kind === 'tape' ? done.stdout : fs.existsSync(to) ? fs.readFileSync(to, 'utf8') : '';
  const found = READ[kind](told, done);
  for (const { name, status, said } of found) {
    write({ id: id(name), status, seconds: Number(took), said: status === 'pass' ? '' : short(said) });
  }
  if (!found.length) {
    write({ file, said: short(lastOf(done.stderr) || `it reported nothing and ended with ${done.status}`) });
  }
}

const readTape = (text) =>
  readTap(text).map((each) => ({ name: each.name, status: each.ok ? 'pass' : 'fail', said: each.said }));

const readExit = (text, done) => [
  { name: 'whole', status: done.status === 0 ? 'pass' : 'fail', said: lastOf(done.stderr) },
];

function readNode(text) {
  const found = [];
  for (const line of text.split('\n')) {
    try {
      const each = JSON.parse(line);
      if (each && typeof each.name === 'string' && ['pass', 'fail', 'skip'].includes(each.status)) found.push(each);
    } catch {
      continue;
    }
  }
  return found;
}

const READ = { node: readNode, expect: readNode, tape: readTape, mocha: readMocha, plain: readExit };

/** The line of an error that says what it is. */
function lastOf(text) {
  const lines = String(text || '').split('\n').filter((line) => line.trim());
  return lines.find((line) => /^\s*(\[?\w*Error\b|\w+Error:)/.test(line)) || lines[lines.length - 1] || '';
}

/** Lines of the sources that V8 says were run: path -> [line, ...]. */
function linesRun(folder) {
  const found = {};
  for (const name of fs.existsSync(folder) ? fs.readdirSync(folder) : []) {
    for (const script of JSON.parse(fs.readFileSync(path.join(folder, name), 'utf8')).result) {
      if (!script.url.startsWith('file://')) continue;
      const place = path.relative(root, fileURLToPath(script.url));
      if (!options.sources.includes(place)) continue;
      const text = fs.readFileSync(path.join(root, place), 'utf8');
      const seen = new Uint8Array(text.length);
      // Inner ranges come after those that hold them, and count instead of them.
      const ranges = script.functions.flatMap((each) => (each.functionName || each.ranges[0].startOffset ? each.ranges : []));
      for (const range of ranges) seen.fill(range.count ? 1 : 0, range.startOffset, range.endOffset);
      const lines = new Set(found[place] || []);
      let at = 0;
      text.split('\n').forEach((line, number) => {
        for (let column = 0; column < line.length; column += 1) {
          if (seen[at + column] && line[column].trim()) {
            lines.add(number + 1);
            break;
          }
        }
        at += line.length + 1;
      });
      found[place] = [...lines].sort((one, other) => one - other);
    }
  }
  return found;
}

const lines = {};
for (const [file, kind] of options.files) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'run-'));
  run(file, kind, scratch);
  if (options.cover) lines[file] = linesRun(path.join(scratch, 'cover'));
  fs.rmSync(scratch, { recursive: true, force: true });
}
if (options.cover) write({ lines });
write({ end: 0 });
