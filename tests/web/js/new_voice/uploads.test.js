// Why an upload failed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { failure } from "../../../../web/static/new_voice/uploads.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("clip"));

test("the server's own sentence is shown when it refuses a file; otherwise the page's", () => {
  assert.equal(failure(new Error("The upload stalled. Try again.")), "The upload stalled. Try again.");
  assert.equal(failure(new Error("")), "The clip could not be uploaded. Try again.");
});
