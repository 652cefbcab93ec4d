// The line that offers the voice that was just saved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { mount } from "../../../../web/static/new_voice/saved_voice.js";

const parts = {};
const listeners = {};
const props = { value: null };
let arrive = null; // called when the value has arrived
globalThis.document = { addEventListener: (type, listener) => (listeners[type] = listener) };
globalThis.window = {};
const element = { querySelector: (selector) => (parts[selector] ??= {}), querySelectorAll: () => [] };
mount({ element, props, trigger: () => {}, watch: (_, shown) => (arrive = shown) });

const line = () => parts[".rp-saved"];
const list = (...ids) => listeners["reprise:coloured"]({ detail: ids.map((id) => ({ id })) });

function save(id) {
  props.value = { id, message: `Saved ${id}.` };
  arrive();
  window.repriseSaved.offer();
}

test("the line goes when the voice is no longer in the list, not before it is in one", () => {
  list("ann");
  save("ben");
  list("ann"); // requested before Ben was saved
  assert.deepEqual([line().hidden, parts.p.textContent], [false, "Saved ben."]);
  list("ann", "ben");
  assert.equal(line().hidden, false);
  save("carl");
  list("ann", "ben");
  assert.equal(line().hidden, false, "the list has had another voice, not this one");
  list("ann", "ben", "carl");
  list("ann", "ben");
  assert.deepEqual([line().hidden, parts.p.textContent], [true, ""]);
});
