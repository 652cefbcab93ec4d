// Requests sent while the page unloads use keepalive and do not wait for an answer. Before that, the browser asks if there
// is unsaved data.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

const listeners = {};
globalThis.addEventListener = (name, listener) => (listeners[name] = listener);
const fetched = [];
let fields = [];
globalThis.document = { querySelectorAll: () => fields };
globalThis.window = { fetch: (asked, options) => fetched.push([asked, options]) };
const { dropGuards, guardLeaving, isLeaving, whenLeaving } = await import("../../../../web/static/connection/leaving.js");
const { RequestQueue } = await import("../../../../web/static/script/request_queue.js");

test("on leaving, a request is sent at once with keepalive although another is pending", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const queue = new RequestQueue(({ text }) => window.fetch("/act", { method: "POST", body: text }), { timeout: 0, last: isLeaving });
  queue.ask(() => ({ text: "first" }));
  whenLeaving(() => queue.ask(() => ({ text: "typed" })));
  assert.equal(isLeaving(), false);
  listeners.pagehide();
  assert.deepEqual(fetched, [["/act", { method: "POST", body: "typed", keepalive: true }]]);
  assert.equal(isLeaving(), true);
  mock.timers.tick(0);
  assert.equal(isLeaving(), false, "the page was restored");
  window.fetch("/later", {});
  assert.deepEqual(fetched[1], ["/later", {}]);
  mock.timers.reset();
});

test("the browser asks before unsaved data is lost, unless the user has agreed", () => {
  let asked = 0;
  const leave = () => listeners.beforeunload({ preventDefault: () => (asked += 1), stopImmediatePropagation() {} });
  const unsaved = [];
  guardLeaving(() => unsaved.length > 0);
  leave();
  assert.equal(asked, 0);
  unsaved.push("a clip");
  leave();
  assert.equal(asked, 1);
  dropGuards();
  leave();
  assert.equal(asked, 1);
});

test("a page shown again from memory has the values of its fields, which Safari has emptied", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  fields = [{ value: "Anna" }, { value: "" }];
  listeners.pagehide();
  listeners.pageshow({ persisted: true });
  fields.forEach((field) => (field.value = ""));
  mock.timers.tick(0);
  assert.deepEqual(fields.map(({ value }) => value), ["Anna", ""]);
  mock.timers.reset();
});
