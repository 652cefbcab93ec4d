// What an entry of the history says, and what the server is said to be doing.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "./helpers.js";
import { detailsOf, emptiness, factsOf, firstWords } from "../../../web/static/history/facts.js";
import { loadingOf, rowsOf, upFor, waitOf } from "../../../web/static/status/facts.js";
import { useWords } from "../../../web/static/ui/words.js";

// Each text is its key's name and its values.
const bare = ([key, text]) => [key, [key.split(".")[1], ...(text.match(/\{\w+\}/g) ?? [])].join(" ")];
useWords(Object.fromEntries(Object.entries(english("history", "status")).map(bare)));

const ENTRY = {
  when: "2026-11-21T16:41:00+00:00", voice: "Anna", seconds: 4.26, seed: 7, settings: {}, factor: null,
  model: "", ending: "end", script: false,
};

test("an entry says when in the reader's own language and time, and only what is known", () => {
  const facts = factsOf(ENTRY, "de").split(" · ");
  const when = new Date(ENTRY.when).toLocaleString("de", { dateStyle: "medium", timeStyle: "short" });
  assert.equal(facts[0], when);
  assert.equal(facts[1], "Anna");
  assert.equal(facts[2], "4,3 s");
  assert.deepEqual(facts.slice(3), ["seed 7"]);
  assert.equal(detailsOf(ENTRY, "en"), "");
});

test("an entry says how it ended and how it was made", () => {
  assert.match(factsOf({ ...ENTRY, ending: "cancelled", script: true }, "en"), / · seed 7 · stopped · of_script$/);
  assert.match(factsOf({ ...ENTRY, ending: "length" }, "en"), / · cut$/);
  assert.match(factsOf({ ...ENTRY, ending: "short" }, "en"), / · short$/);
  const made = { ...ENTRY, model: "s2-pro", settings: { temperature: 0, top_p: 0.85, top_k: 30 }, factor: 0.4567 };
  assert.equal(detailsOf(made, "de"), "s2-pro · temperature 0 · top_p 0,85 · top_k 30 · factor 0,46");
});

test("an empty list says why", () => {
  assert.equal(emptiness({ found: true, kept: true }), "none");
  assert.equal(emptiness({ found: true, kept: false }), "none_kept");
  assert.equal(emptiness({ found: false, kept: true }), "no_match");
});

test("a long text is named by its first words", () => {
  assert.equal(firstWords("Short."), "Short.");
  assert.equal(firstWords("a".repeat(80)), `${"a".repeat(60)}…`);
});

const STATE = {
  name: "bundled", device: "cpu", precision: "fp32", graphs: "frame", slots: 4, speaking: 1, waiting: 0,
  place: null, wait: 0, factor: null, memory: 5e6, device_memory: null, prepared: 0, uptime: 30,
};
const row = (state, name) => rowsOf({ ...STATE, ...state }, "en").find(([key]) => key === name)?.[1];

test("the server's doing, in words", () => {
  assert.equal(row({}, "speaking"), "of 1 4");
  assert.equal(row({}, "graphs"), "graphs_frame");
  assert.equal(row({ graphs: "off" }, "graphs"), "graphs_off");
  assert.equal(row({ graphs: "off: no memory" }, "graphs"), "graphs_off: no memory");
  assert.equal(row({}, "factor"), "factor_unknown");
  assert.equal(row({ factor: 0.25 }, "factor"), "factor_is 0.25 4");
  assert.equal(row({}, "memory"), "5 MB");
  assert.equal(row({}, "device_memory"), undefined);
  assert.equal(row({ device_memory: 9.5e9 }, "device_memory"), "9,500 MB");
});

test("a model that is unloaded without use says so, and when", () => {
  assert.equal(row({}, "idle"), undefined);
  assert.equal(row({ idle: 90 }, "idle"), "idle_after 1.5");
  assert.equal(row({}, "model"), "bundled");
  assert.equal(row({ asleep: true }, "model"), "asleep bundled");
});

test("only who waits has a place, and the wait is then their own", () => {
  assert.equal(row({}, "place"), undefined);
  assert.equal(row({}, "wait"), "wait_none");
  assert.equal(row({ place: 2, wait: 12.4 }, "place"), "2");
  assert.equal(row({ place: 2, wait: 12.4 }, "own_wait"), "about_seconds 12");
  assert.equal(row({ place: 2, wait: 12.4 }, "wait"), undefined);
});

test("times are as rough as they are long", () => {
  assert.deepEqual([1.2, 99, 150].map((wait) => waitOf({ wait })), ["about_seconds 1", "about_seconds 99", "about_minutes 3"]);
  assert.equal(waitOf({ wait: null }), "wait_unknown");
  assert.deepEqual([59, 3_600, 86_400, 200_000].map(upFor), ["minutes 0", "hours 1 0", "hours 24 0", "days 2 7"]);
});

test("a model on its way waits for takes first", () => {
  assert.equal(loadingOf({ name: "large", waits: true, done: 0 }), "loading_waits large");
  assert.equal(loadingOf({ name: "large", waits: false, done: 0.514 }), "loading large 51");
});
