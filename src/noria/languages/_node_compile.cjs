// Turns the TypeScript of a repository into JavaScript, file by file and without looking at types.
//
//     node _node_compile.cjs FROM TO
//
// TO becomes a copy of FROM in which every file of TypeScript is a CommonJS module beside its place.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const [from, to] = process.argv.slice(2);
const ts = require(require.resolve('typescript', { paths: ['/'] }));
const options = {
  module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, esModuleInterop: true, jsx: ts.JsxEmit.React,
  experimentalDecorators: true, useDefineForClassFields: false,
};
const ENTRY = ['src/index', 'src/main', 'index', 'mod', 'src/mod']
  .filter((each) => ['.ts', '.mts', '.tsx', '.cts'].some((ending) => fs.existsSync(path.join(from, each + ending))))
  .map((each) => `${each}.js`)[0] || 'index.js';
const SCRIPT = /\.[cm]?[jt]sx?$/;

function walk(below) {
  for (const entry of fs.readdirSync(path.join(from, below), { withFileTypes: true })) {
    const place = path.join(below, entry.name);
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) {
      fs.mkdirSync(path.join(to, place), { recursive: true });
      walk(place);
    } else if (entry.isFile()) {
      put(place, fs.readFileSync(path.join(from, place)));
    }
  }
}

function put(place, data) {
  if (/\.d\.[cm]?ts$/.test(place)) return;
  if (place === 'package.json') {
    // What was built before is not here: the package is its sources, under its own name as well.
    const { exports, ...about } = JSON.parse(data.toString());
    fs.writeFileSync(path.join(to, place), JSON.stringify({ ...about, type: 'commonjs', main: ENTRY }));
    if (typeof about.name === 'string' && /^(@[\w.-]+\/)?[\w-][\w.-]*$/.test(about.name)) {
      const alias = path.join(to, 'node_modules', about.name);
      fs.mkdirSync(alias, { recursive: true });
      const entry = JSON.stringify(path.join(to, ENTRY));
      fs.writeFileSync(path.join(alias, 'index.js'), `module.exports = require(${entry});\n`);
    }
  } else if (SCRIPT.test(place)) {
    const done = ts.transpileModule(data.toString(), { compilerOptions: options, fileName: place });
    fs.writeFileSync(path.join(to, place.replace(/(\.[cm]?)tsx?$/, '$1js')), done.outputText);
  } else {
    fs.writeFileSync(path.join(to, place), data);
  }
}

fs.mkdirSync(to, { recursive: true });
walk('');
