// Text that the page writes into a field.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { typeInto } from "../../../../web/static/ui/typing.js";

let written; // what the browser was asked to insert
let works; // whether it can
let hiding; // listeners of the window that hide events from others
let field;

beforeEach(() => {
  [written, works, hiding] = [[], true, new Set()];
  globalThis.document = { execCommand: (...command) => written.push([command, hiding.size]) && works };
  globalThis.addEventListener = (type, act, { capture }) => type === "input" && capture && hiding.add(act);
  globalThis.removeEventListener = (type, act, { capture }) => type === "input" && capture && hiding.delete(act);
  field = {
    value: "One two three.", selectionStart: 4, selectionEnd: 7, events: [],
    focus() {},
    select() {
      this.selected = true;
    },
    setRangeText(text, start, end) {
      this.value = this.value.slice(0, start) + text + this.value.slice(end);
    },
    dispatchEvent: ({ type, bubbles }) => field.events.push([type, bubbles, hiding.size]),
  };
});

test("a text is inserted as if typed, and others are told once", () => {
  typeInto(field, "2");
  assert.deepEqual(written, [[["insertText", false, "2"], 1]]);
  assert.deepEqual([field.value, field.selected, field.events], ["One two three.", undefined, [["input", true, 0]]]);
  typeInto(field, "All.", { all: true });
  assert.equal(field.selected, true);
});

test("where the browser cannot, it replaces the selection, or all", () => {
  works = false;
  typeInto(field, "2");
  assert.deepEqual([field.value, field.events], ["One 2 three.", [["input", true, 0]]]);
  typeInto(field, "All.", { all: true });
  assert.equal(field.value, "All.");
});
