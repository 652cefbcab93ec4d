// An answer may come after a newer one, which stays. A new server process may have an earlier time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Newest } from "../../../../web/static/connection/answers/newest.js";

test("older answers are not taken, unless a new process of the server sent them", () => {
  const page = new EventTarget();
  const newest = new Newest(page);
  const back = (anew) => page.dispatchEvent(new CustomEvent("reprise:back", { detail: { anew } }));
  assert.deepEqual([20, 10, 20, 30].map((at) => newest.takes(at)), [true, false, true, true]);
  back(false);
  assert.equal(newest.takes(10), false);
  back(true);
  assert.deepEqual([10, 5, 11].map((at) => newest.takes(at)), [true, false, true]);
});
