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

test("of other errors, the page shows no text of the browser or of a proxy", () => {
  for (const error of [...["Failed to fetch", "HTTP 502: <html>", "HTTP 500: {}", "HTTP 500: null"].map((text) => new Error(text)), "odd"])
    assert.equal(failure(error), "The clip could not be uploaded. Try again.");
});
