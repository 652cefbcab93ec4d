// Scripts of web/static, run together as the page runs them. `wanted`: names that they define.

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const vm = require("node:vm");

const STATIC = join(__dirname, "..", "..", "..", "web", "static");

function load(files, wanted, globals = {}) {
  const source = files.map((name) => readFileSync(join(STATIC, name), "utf8")).join("\n");
  // In this very realm, so that arrays and errors are the tests' own.
  const names = Object.keys(globals);
  const run = vm.compileFunction(`${source}\nreturn { ${wanted.join(", ")} };`, names, { filename: files.at(-1) });
  return run(...Object.values(globals));
}

// A ramp is easy to follow: each sample says where in the take it is.
const ramp = (start, count) => Int16Array.from({ length: count }, (_, i) => start + i);

function heard(take, count, step = 1) {
  const out = new Float32Array(count);
  take.read(out, step);
  return out;
}

const whole = (out) => Array.from(out, (value) => Math.round(value * 32768));
const largestStep = (out) => Math.max(...out.slice(1).map((value, i) => Math.abs(value - out[i])));

function seeded(seed) {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

// What words.js makes of these groups of keys, in English.
function english(...groups) {
  const read = (group) => JSON.parse(readFileSync(join(STATIC, "..", "locales", "en", `${group}.json`), "utf8"));
  const texts = Object.assign({}, ...groups.map(read));
  return (key, values = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

module.exports = { load, english, ramp, heard, whole, largestStep, seeded };
