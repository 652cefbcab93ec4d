// The entry of the dictionary that a selected word opens.

import assert from "node:assert/strict";
import { test } from "node:test";

import { entryFor } from "../../../../web/static/shell/dictionary.js";

test("a word has the entry in its own case before one in any case, and none of another that must match", () => {
  const entry = (word, exact = false) => ({ word, match_case: exact });
  const entries = [entry("POLISH", true), entry("polish"), entry("Tomato")];
  assert.deepEqual(["polish", "Polish", "POLISH"].map((word) => entryFor(word, entries).word), ["polish", "polish", "POLISH"]);
  assert.equal(entryFor("tomato", entries).word, "Tomato");
  assert.equal(entryFor("Other", entries), undefined);
  assert.equal(entryFor("", entries), undefined);
});
