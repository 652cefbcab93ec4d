// Files that are dropped beside the places that take them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refuseFiles } from "../../../../web/static/shell/file_drops.js";

// Returns an event of something dragged over the page, after the page has handled it.
function dragged(types, { taken = false } = {}) {
  const page = (globalThis.addEventListener = (kind, listener) => (page[kind] = listener));
  refuseFiles();
  delete globalThis.addEventListener;
  const event = new Event("dragover", { cancelable: true });
  event.dataTransfer = { types, dropEffect: "copy" };
  if (taken) event.preventDefault();
  page.dragover(event);
  assert.equal(page.drop, page.dragover);
  return event;
}

test("the browser does not open a file that nothing takes", () => {
  const event = dragged(["Files"]);
  assert.deepEqual([event.defaultPrevented, event.dataTransfer.dropEffect], [true, "none"]);
});

test("files are taken where they are wanted, and text is dropped everywhere", () => {
  assert.equal(dragged(["Files"], { taken: true }).dataTransfer.dropEffect, "copy");
  assert.equal(dragged(["text/plain"]).defaultPrevented, false);
});
