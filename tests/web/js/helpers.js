// Helpers of the tests of web/static.

import { readdirSync, readFileSync } from "node:fs";

const LOCALE = new URL("../../../web/locales/en/", import.meta.url);
const ENGLISH = readdirSync(LOCALE).flatMap((file) => Object.entries(JSON.parse(readFileSync(new URL(file, LOCALE), "utf8"))));

// A ramp: the value of each sample is its position in the take.
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

// English texts of these groups of keys, for `useWords`.
function english(...groups) {
  return Object.fromEntries(ENGLISH.filter(([key]) => groups.includes(key.split(".")[0])));
}

export { english, ramp, heard, whole, largestStep, seeded };
