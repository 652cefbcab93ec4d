// Texts of history entries and of the server's status.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { detailsOf, emptiness, factsOf, firstWords } from "../../../../web/static/history/facts.js";
import { loadingOf, rowsOf, upFor, waitOf } from "../../../../web/static/status/facts.js";
import { useWords, words } from "../../../../web/static/ui/words.js";

// Replaces each text by its key's name and its placeholders.
const bare = ([key, text]) => [key, [key.split(".")[1], ...(text.match(/\{\w+\}/g) ?? [])].join(" ")];
const TEXTS = Object.fromEntries(Object.entries(english("history", "status")).map(bare));
useWords(TEXTS);

const ENTRY = {
  when: "2026-11-21T16:41:00+00:00", voice: "Anna", seconds: 4.26, seed: 7, settings: {}, factor: null,
  model: "", ending: "end", script: false,
};

test("an entry shows the local time in the reader's language, and only known facts", () => {
  const facts = factsOf(ENTRY, "de").split(" · ");
  const when = new Date(ENTRY.when).toLocaleString("de", { dateStyle: "medium", timeStyle: "short" });
  assert.equal(facts[0], when);
  assert.equal(facts[1], "Anna");
  assert.equal(facts[2], "4,3\u00a0s");
  assert.deepEqual(facts.slice(3), ["seed 7"]);
  assert.equal(detailsOf(ENTRY, "en"), "");
});

test("the name of a voice in Arabic does not change places with the length after it", () => {
  assert.match(factsOf({ ...ENTRY, voice: "العربية" }, "en"), / · \u2068العربية\u2069 · 4\.3\u00a0s · seed 7$/);
  useWords({ take: "{number} · {voice} · {seed}" });
  assert.equal(words("take", { number: 2, voice: "שרה", seed: "5" }), "2 · \u2068שרה\u2069 · 5");
  useWords(TEXTS);
});

test("an entry shows how it ended and its settings", () => {
  assert.match(factsOf({ ...ENTRY, ending: "cancelled", script: true }, "en"), / · seed 7 · stopped · of_script$/);
  assert.match(factsOf({ ...ENTRY, ending: "disconnected" }, "en"), / · seed 7 · disconnected$/);
  assert.match(factsOf({ ...ENTRY, ending: "length" }, "en"), / · cut$/);
  assert.match(factsOf({ ...ENTRY, ending: "short" }, "en"), / · short$/);
  const made = { ...ENTRY, model: "s2-pro", settings: { temperature: 0, top_p: 0.85, top_k: 30, speed: 1.25 }, factor: 0.4567 };
  assert.equal(detailsOf(made, "de"), "s2-pro · temperature 0 · top_p 0,85 · top_k 30 · speed 1,25 · factor 0,46");
});

test("an empty list gives the reason", () => {
  assert.equal(emptiness({ unfiltered: true, kept: true }), "none");
  assert.equal(emptiness({ unfiltered: true, kept: false }), "none_kept");
  assert.equal(emptiness({ unfiltered: false, kept: true }), "no_match");
});

test("a long text is shortened to its beginning", () => {
  assert.equal(firstWords("Short."), "Short.");
  assert.equal(firstWords("a".repeat(80)), `${"a".repeat(60)}…`);
});

const STATE = {
  name: "bundled", device: "cpu", precision: "fp32", graphs: "frame", slots: 4, speaking: 1, waiting: 0,
  place: null, wait: 0, factor: null, memory: 5e6, device_memory: null, prepared: 0, uptime: 30,
};
const row = (state, name) => rowsOf({ ...STATE, ...state }, "en").find(([key]) => key === name)?.[1];

test("status rows describe the server", () => {
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

test("status rows show that an idle model is unloaded, and after how long", () => {
  assert.equal(row({}, "idle"), undefined);
  assert.equal(row({ idle: 90 }, "idle"), "idle_after 1.5");
  assert.equal(row({}, "model"), "bundled");
  assert.equal(row({ asleep: true }, "model"), "asleep bundled");
});

test("only waiting visitors have a place and a wait of their own", () => {
  assert.equal(row({}, "place"), undefined);
  assert.equal(row({}, "wait"), "wait_none");
  assert.equal(row({ place: 2, wait: 12.4 }, "place"), "2");
  assert.equal(row({ place: 2, wait: 12.4 }, "own_wait"), "about_seconds 12");
  assert.equal(row({ place: 2, wait: 12.4 }, "wait"), undefined);
});

test("longer times are rounded more", () => {
  assert.deepEqual([1.2, 99, 150].map((wait) => waitOf({ wait })), ["about_seconds 1", "about_seconds 99", "about_minutes 3"]);
  assert.equal(waitOf({ wait: null }), "wait_unknown");
  assert.deepEqual([59, 3_600, 86_400, 200_000].map(upFor), ["minutes 0", "hours 1 0", "hours 24 0", "days 2 7"]);
});

test("a loading model waits for takes first", () => {
  assert.equal(loadingOf({ name: "large", waits: true, done: 0 }), "loading_waits large");
  assert.equal(loadingOf({ name: "large", waits: false, done: 0.514 }), "loading large 51");
});
