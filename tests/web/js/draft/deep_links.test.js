// Deep links to a voice, a take or a script.

import assert from "node:assert/strict";
import test from "node:test";

import "../helpers.js";
import { addressOf, linked } from "../../../../web/static/draft/deep_links.js";

const ID = "0123456789abcdef0123456789abcdef";

test("a deep link names one item and its tab", () => {
  assert.deepEqual(linked(`?script=${ID}`), { kind: "script", id: ID, tab: "script", valid: true });
  assert.deepEqual(linked(`?__theme=dark&voice=${ID}`), { kind: "voice", id: ID, tab: "speak", valid: true });
  assert.equal(linked("?take=../../etc").valid, false);
  assert.equal(linked("?other=1"), null);
  assert.equal(linked(""), null);
});

test("a deep link keeps the page's other parameters", () => {
  const here = `https://host/studio/?__theme=dark&voice=x#top`;
  assert.equal(addressOf(here, "take", ID), `https://host/studio/?__theme=dark&take=${ID}`);
  assert.equal(addressOf(here), "https://host/studio/?__theme=dark");
});
