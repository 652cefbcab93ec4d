// The line that offers the voice that was just saved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { mount } from "../../../../web/static/new_voice/saved_voice.js";
import { saveOneAtATime } from "../../../../web/static/new_voice/sent_form.js";

const parts = {};
const listeners = {};
const props = { value: null };
let arrive = null; // called when the value has arrived
globalThis.document = { addEventListener: (type, listener) => (listeners[type] = listener) };
globalThis.window = {};
const element = { querySelector: (selector) => (parts[selector] ??= {}), querySelectorAll: () => [] };
const sent = [];
mount({ element, props, trigger: (...event) => sent.push(event), watch: (_, shown) => (arrive = shown) });

saveOneAtATime(); // notes what the user does

const line = () => parts[".rp-saved"];
const list = (...ids) => listeners["reprise:coloured"]({ detail: ids.map((id) => ({ id })) });

const use = (id) => listeners.input({ isTrusted: true, target: { closest: (selector) => (selector === "#rp-save" ? null : { id }) } });

function save(id) {
  props.value = { id, message: `Saved ${id}.` };
  arrive();
  window.repriseSaved.offer();
}

test("the voice is picked at once, or when the line is pressed, and its tab opens if the user does nothing meanwhile", () => {
  save("ada");
  assert.deepEqual(sent.splice(0), [["use", { id: "ada" }]]);
  props.value = { id: "eve", message: "Saved eve." };
  use("rp-text");
  arrive();
  assert.deepEqual([sent, line().hidden, parts.p.textContent], [[], false, "Saved eve."]);
  parts[".rp-saved-use"].onclick();
  assert.deepEqual([sent.splice(0), line().hidden], [[["use", { id: "eve" }]], true]);
  assert.equal(window.repriseSaved.tabToShow().selected, "speak");
  use("rp-text");
  assert.equal(window.repriseSaved.tabToShow().selected, undefined);
  window.repriseSaved.offer();
  parts[".rp-saved-close"].onclick();
  assert.deepEqual([sent, line().hidden], [[], true]);
});

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
