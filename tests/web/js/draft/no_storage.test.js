// A page in a browser that refuses storage and channels, as Firefox does where it blocks cookies.

import assert from "node:assert/strict";
import { test } from "node:test";

const refuse = () => {
  throw new DOMException("The operation is insecure.", "SecurityError");
};
for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(globalThis, name, { get: refuse });
globalThis.BroadcastChannel = class {
  constructor() {
    refuse();
  }
};
globalThis.window = globalThis;
globalThis.document = new EventTarget();
globalThis.addEventListener = () => {};
globalThis.history = { state: null, replaceState() {}, pushState() {} };

test("the page opens, shares changes among its own tabs, and forgets", async () => {
  const { fillIn, forgetEverything, keepDraft, opening } = await import("../../../../web/static/draft/page_draft.js");
  const { mount } = await import("../../../../web/static/connection/change_broadcast.js");
  assert.deepEqual(opening(), [null, null]);
  keepDraft(["rp-text"], ["typed"]);
  fillIn(["rp-text"]);

  const told = [];
  const component = { props: {}, trigger: (event) => told.push(event), watch: (_name, changed) => (component.changed = changed) };
  mount(component);
  component.props.value = { what: "voices history" };
  component.changed();
  assert.deepEqual(told, ["voices", "voice_list", "history"]);

  let forgotten = 0;
  document.addEventListener("reprise:forgotten", () => (forgotten += 1));
  forgetEverything();
  assert.equal(forgotten, 1);
});
