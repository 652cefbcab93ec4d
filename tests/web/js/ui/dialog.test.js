// A dialog closes with a click beside it, and with no other.

import assert from "node:assert/strict";
import { test } from "node:test";

import { dialogIn } from "../../../../web/static/ui/dialog.js";

globalThis.document = { addEventListener() {} };

// A dialog from (100, 100) to (300, 200), and a function that presses a pointer at one place and releases it at another. Each place is
// [x, y, element]; without an element it is the dialog, to which its backdrop and its padding belong.
function setUp() {
  const listeners = {};
  const dialog = {
    open: true,
    close: () => (dialog.open = false),
    querySelector: () => ({}),
    addEventListener: (name, listener) => (listeners[name] = listener),
    getBoundingClientRect: () => ({ left: 100, right: 300, top: 100, bottom: 200 }),
  };
  dialogIn({ querySelector: () => dialog }, "button", () => {});
  const send = (name, [clientX, clientY, target = dialog], shared = target) => listeners[name]?.({ target: shared, clientX, clientY });
  const drag = (from, to) => {
    send("pointerdown", from);
    send("click", to, from[2] === to[2] ? to[2] : dialog); // browsers send it to the element that holds both
    return dialog.open;
  };
  return drag;
}

const FIELD = {};
const BESIDE = [50, 150];

test("a click beside a dialog closes it", () => {
  assert.equal(setUp()(BESIDE, BESIDE), false);
});

test("a click in a dialog, also on its padding, does not close it", () => {
  for (const place of [[150, 150, FIELD], [104, 150]]) assert.equal(setUp()(place, place), true);
});

test("text that is selected beyond the edge of a dialog does not close it", () => {
  assert.equal(setUp()([150, 150, FIELD], BESIDE), true);
  assert.equal(setUp()(BESIDE, [150, 150, FIELD]), true);
});
