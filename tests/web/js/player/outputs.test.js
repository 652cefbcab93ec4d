// The output for plain http.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { BufferOutput } from "../../../../web/static/player/playout/outputs.js";

test("an output leaves no timer when its audio context is closed", () => {
  const begun = mock.method(globalThis, "setInterval", () => "timer").mock;
  const cleared = mock.method(globalThis, "clearInterval", () => {}).mock;
  const context = { state: "running" };
  new BufferOutput(context, {}, () => {});
  const [tick] = begun.calls[0].arguments;
  tick();
  assert.equal(cleared.calls.length, 0);
  context.state = "closed";
  tick();
  assert.deepEqual(cleared.calls.map((call) => call.arguments), [["timer"]]);
  mock.restoreAll();
});
