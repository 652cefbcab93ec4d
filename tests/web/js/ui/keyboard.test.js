// Keyboard support that Gradio's components lack.

import assert from "node:assert/strict";
import { test } from "node:test";

import { composes, mayFocus, moved } from "../../../../web/static/ui/keyboard.js";

test("arrow keys move between tabs and around their ends", () => {
  assert.deepEqual(["ArrowLeft", "ArrowRight", "Home", "End"].map((key) => moved(key, 0, 6)), [5, 1, 0, 5]);
  assert.equal(moved("ArrowRight", 5, 6), 0);
  assert.equal(moved("ArrowDown", 2, 6), null, "this key scrolls the page");
});

test("keys of an input method are recognised in every browser", () => {
  assert.equal(composes({ key: "Enter", isComposing: false, keyCode: 13 }), false);
  assert.equal(composes({ key: "Enter", isComposing: true, keyCode: 229 }), true);
  assert.equal(composes({ key: "Enter", isComposing: false, keyCode: 229 }), true, "Safari, after the last key");
});

test("an answer does not move the focus from a field that is in use", () => {
  const element = (matches, isThere = true) => ({ matches: (fields) => matches && /textarea/.test(fields), checkVisibility: () => isThere });
  const [field, other, hidden, button] = [element(true), element(true), element(true, false), element(false)];
  const may = (held, from) => {
    globalThis.document = { activeElement: held };
    return mayFocus(from);
  };
  assert.deepEqual([may(button), may(hidden), may(null), may(field, field)], [true, true, true, true]);
  assert.deepEqual([may(field), may(field, other)], [false, false]);
});
