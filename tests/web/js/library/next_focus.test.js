// The focus after a voice is deleted, restored or renamed.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { NextFocus } from "../../../../web/static/library/next_focus.js";

const body = {};
const remove = {}; // the pressed button
const undo = { focus: () => (document.activeElement = undo) };
const element = { querySelector: () => element.shown };
globalThis.document = { body };
globalThis.CSS = { escape: (text) => text };

let next;
beforeEach(() => {
  next = new NextFocus(element);
  document.activeElement = remove;
  element.shown = null;
  next.choose("zoe", ".rp-lib-aside", "[data-act=restore]");
});

// Shows an answer. shown: the control that is there. active: what has the focus then.
function answer(id, shown, active) {
  element.shown = shown;
  document.activeElement = active;
  next.answered(id);
  return document.activeElement;
}

test("the control takes the focus of the pressed button, once", () => {
  assert.equal(answer("zoe", undo, body), undo);
  assert.equal(answer("zoe", undo, body), body);
});

test("an answer about another voice, or before the control is there, leaves the choice", () => {
  assert.equal(answer("ida", undo, body), body);
  assert.equal(answer("zoe", null, body), body);
  assert.equal(answer("zoe", undo, body), undo);
});

test("an answer to an earlier change, whose list has the voice twice, leaves the choice", () => {
  assert.equal(answer("zoe", undo, remove), remove);
  assert.equal(answer("zoe", undo, body), undo);
});
