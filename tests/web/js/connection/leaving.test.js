// Requests sent while the page unloads use keepalive and do not wait for an answer.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

let left;
globalThis.addEventListener = (name, listener) => name === "pagehide" && (left = listener);
const fetched = [];
globalThis.window = { fetch: (asked, options) => fetched.push([asked, options]) };
const { isLeaving, whenLeaving } = await import("../../../../web/static/connection/leaving.js");
const { RequestQueue } = await import("../../../../web/static/script/request_queue.js");

test("on leaving, a request is sent at once with keepalive although another is pending", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const queue = new RequestQueue(({ text }) => window.fetch("/act", { method: "POST", body: text }), { patience: 0, last: isLeaving });
  queue.ask(() => ({ text: "first" }));
  whenLeaving(() => queue.ask(() => ({ text: "typed" })));
  assert.equal(isLeaving(), false);
  left();
  assert.deepEqual(fetched, [["/act", { method: "POST", body: "typed", keepalive: true }]]);
  assert.equal(isLeaving(), true);
  mock.timers.tick(0);
  assert.equal(isLeaving(), false, "the page was restored");
  window.fetch("/later", {});
  assert.deepEqual(fetched[1], ["/later", {}]);
  mock.timers.reset();
});
