// The choice of the loudness of downloads.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("player"));

class Element extends EventTarget {
  append() {}
  setAttribute() {}
}

const kept = new Map();
const shown = []; // the selects on the page
globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
globalThis.document = new EventTarget();
document.createElement = (tag) => {
  const node = new Element();
  if (tag === "select") shown.push(node);
  return node;
};
document.querySelectorAll = (selector) => (selector === ".rp-lufs" ? shown : []);
const { atLoudness, loudnessChoice } = await import("../../../../web/static/sound/loudness.js");

test("all selects show the same choice, and each list of links is told", () => {
  let changes = 0;
  loudnessChoice(() => (changes += 1));
  loudnessChoice();
  const [one, other] = shown;
  assert.deepEqual([one.value, other.value, atLoudness("/a.wav")], ["", "", "/a.wav"]);
  other.value = "16";
  other.dispatchEvent(new Event("change"));
  assert.deepEqual([one.value, changes, atLoudness("/a.wav")], ["16", 1, "/a.wav?lufs=16"]);
  loudnessChoice();
  assert.equal(shown.at(-1).value, "16");
});

test("a select that has left the page is not held by it", () => {
  const listen = mock.method(document, "addEventListener");
  for (let i = 0; i < 50; i++) loudnessChoice();
  assert.equal(listen.mock.callCount(), 0);
});
