// Why an upload failed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { failure } from "../../../../web/static/new_voice/uploads.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("clip"));

test("the server's own sentence is shown when it refuses a file", () => {
  const answer = JSON.stringify({ detail: "The upload stalled. Try again.", error: "The upload stalled. Try again." });
  assert.equal(failure(new Error(`HTTP 408: ${answer}`)), "The upload stalled. Try again.");
});

test("other errors are named", () => {
  const expected = (reason) => `The clip could not be uploaded (${reason}). Try again.`;
  for (const text of ["Failed to fetch", "HTTP 502: <html>", "HTTP 500: {}", "HTTP 500: null"])
    assert.equal(failure(new Error(text)), expected(text));
  assert.equal(failure("odd"), expected("odd"));
});
