// Stars and favourites: the last state that the user saw is the last that the server gets.

import assert from "node:assert/strict";
import { test } from "node:test";

let leave;
globalThis.addEventListener = (name, listener) => name === "pagehide" && (leave = listener);
globalThis.window = { fetch: () => {} };
globalThis.document = { querySelectorAll: () => [] };
const { Marks } = await import("../../../../web/static/connection/marks.js");

function marksOf() {
  const [sent, shown, marks] = [[], [], new Marks()];
  marks.connect((...mark) => shown.push(mark));
  const set = (id, marked, ...tab) => marks.set(id, marked, () => sent.push([id, marked, ...tab]));
  return { sent, shown, marks, set };
}

test("a mark is sent when the one before is answered, and only in its last state", () => {
  const { sent, marks, set } = marksOf();
  set("a", true);
  set("a", false);
  set("b", true);
  set("a", true);
  set("a", false);
  assert.deepEqual(sent, [["a", true]]);
  marks.over();
  assert.deepEqual(sent, [["a", true], ["a", false]]);
  marks.over();
  marks.over();
  assert.deepEqual(sent, [["a", true], ["a", false], ["b", true]]);
  set("a", true);
  assert.deepEqual(sent.at(-1), ["a", true]);
});

test("marks of one item from several tabs are sent in order, and a refusal is shown on all", () => {
  const { sent, shown, marks, set } = marksOf();
  const other = [];
  marks.connect((...mark) => other.push(mark));
  set("a", true, "speak");
  set("a", false, "history");
  assert.deepEqual(sent, [["a", true, "speak"]]);
  marks.over();
  assert.deepEqual(sent, [["a", true, "speak"], ["a", false, "history"]]);
  marks.failed();
  assert.deepEqual([shown, other], [[["a", true]], [["a", true]]]);
});

test("a list from before the last mark does not show an older state", () => {
  const { marks, set } = marksOf();
  set("a", true);
  assert.equal(marks.of("a", false), true);
  set("a", false);
  assert.equal(marks.of("a", true), false);
  assert.equal(marks.of("b", true), true);
  marks.over();
  assert.equal(marks.of("a", true), false);
  marks.over();
  assert.equal(marks.of("a", true), true);
});

test("a mark that is refused is shown as it was before, unless there is a later one", () => {
  const { sent, shown, marks, set } = marksOf();
  set("a", true);
  marks.failed();
  assert.deepEqual(shown, [["a", false]]);
  assert.equal(marks.of("a", false), false);
  set("a", true);
  set("a", false);
  set("a", true);
  marks.failed();
  assert.deepEqual([shown.at(-1), sent.at(-1)], [["a", true], ["a", true]]);
  marks.failed();
  assert.deepEqual(shown.at(-1), ["a", false]);
});

test("marks that wait are sent when the page is left", () => {
  const { sent, set } = marksOf();
  set("a", true);
  set("a", false);
  leave();
  assert.deepEqual(sent, [["a", true], ["a", false]]);
});

test("marks that were sent while the page was left may fail when it is shown again", () => {
  const { sent, shown, marks, set } = marksOf();
  set("a", true);
  set("b", true);
  leave({});
  assert.deepEqual(sent, [["a", true], ["b", true]]);
  for (let answers = 0; answers < 3; answers++) marks.failed();
  assert.deepEqual(shown, [["a", false], ["b", false]]);
});
