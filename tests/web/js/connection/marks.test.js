// Stars and favourites: the last state that the user saw is the last that the server gets.

import assert from "node:assert/strict";
import { test } from "node:test";

let leave;
globalThis.addEventListener = (name, listener) => name === "pagehide" && (leave = listener);
globalThis.window = { fetch: () => {} };
globalThis.document = { querySelectorAll: () => [] };
const { Marks } = await import("../../../../web/static/connection/marks.js");

function marksOf() {
  const [sent, shown] = [[], []];
  return { sent, shown, marks: new Marks((...mark) => sent.push(mark), (...mark) => shown.push(mark)) };
}

test("a mark is sent when the one before is answered, and only in its last state", () => {
  const { sent, marks } = marksOf();
  marks.set("a", true);
  marks.set("a", false);
  marks.set("b", true);
  marks.set("a", true);
  marks.set("a", false);
  assert.deepEqual(sent, [["a", true]]);
  marks.over();
  assert.deepEqual(sent, [["a", true], ["a", false]]);
  marks.over();
  marks.over();
  assert.deepEqual(sent, [["a", true], ["a", false], ["b", true]]);
  marks.set("a", true);
  assert.deepEqual(sent.at(-1), ["a", true]);
});

test("a list from before the last mark does not show an older state", () => {
  const { marks } = marksOf();
  marks.set("a", true);
  assert.equal(marks.of("a", false), true);
  marks.set("a", false);
  assert.equal(marks.of("a", true), false);
  assert.equal(marks.of("b", true), true);
  marks.over();
  assert.equal(marks.of("a", true), false);
  marks.over();
  assert.equal(marks.of("a", true), true);
});

test("a mark that is refused is shown as it was before, unless there is a later one", () => {
  const { sent, shown, marks } = marksOf();
  marks.set("a", true);
  marks.failed();
  assert.deepEqual(shown, [["a", false]]);
  assert.equal(marks.of("a", false), false);
  marks.set("a", true);
  marks.set("a", false);
  marks.set("a", true);
  marks.failed();
  assert.deepEqual([shown.at(-1), sent.at(-1)], [["a", true], ["a", true]]);
  marks.failed();
  assert.deepEqual(shown.at(-1), ["a", false]);
});

test("marks that wait are sent when the page is left", () => {
  const { sent, marks } = marksOf();
  marks.set("a", true);
  marks.set("a", false);
  leave();
  assert.deepEqual(sent, [["a", true], ["a", false]]);
});

test("marks that were sent while the page was left may fail when it is shown again", () => {
  const { sent, shown, marks } = marksOf();
  marks.set("a", true);
  marks.set("b", true);
  leave({});
  assert.deepEqual(sent, [["a", true], ["b", true]]);
  for (let answers = 0; answers < 3; answers++) marks.failed();
  assert.deepEqual(shown, [["a", false], ["b", false]]);
});
