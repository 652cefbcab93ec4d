// Gradio's message about a refused upload.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withoutMessages } from "../../../../web/static/connection/gradio_messages.js";

// A document with a message that is shown once an upload was refused. Returns its events.
function stage() {
  const events = [];
  const message = { click: () => events.push("closed") };
  globalThis.document = {
    documentElement: { toggleAttribute: (name, on) => events.push(`${name} ${on}`) },
    querySelectorAll: () => [message],
  };
  return events;
}

test("the message is hidden before it is drawn, closed, and the error reaches the caller", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const events = stage();
  const upload = withoutMessages(() => Promise.reject(new Error("HTTP 429")));
  await assert.rejects(upload({}), /HTTP 429/);
  assert.deepEqual(events, ["data-rp-refused true"]);
  t.mock.timers.tick(1_000);
  assert.deepEqual(events, ["data-rp-refused true", "closed", "data-rp-refused false"]);
});

test("an upload that succeeds closes nothing", async () => {
  const events = stage();
  assert.deepEqual(await withoutMessages(async (file) => ({ path: file }))("clip"), { path: "clip" });
  assert.deepEqual(events, []);
});
