// Addresses that open the page at a voice, a take or a script.

import assert from "node:assert/strict";
import test from "node:test";

import "./helpers.js";
import { addressOf, linked } from "../../../web/static/draft/deep_links.js";

const ID = "0123456789abcdef0123456789abcdef";

test("an address names one thing, and the tab that shows it", () => {
  assert.deepEqual(linked(`?script=${ID}`), { kind: "script", id: ID, tab: "script", valid: true });
  assert.deepEqual(linked(`?__theme=dark&voice=${ID}`), { kind: "voice", id: ID, tab: "speak", valid: true });
  assert.equal(linked("?take=../../etc").valid, false);
  assert.equal(linked("?other=1"), null);
  assert.equal(linked(""), null);
});

test("an address keeps what else the page's has", () => {
  const here = `https://host/studio/?__theme=dark&voice=x#top`;
  assert.equal(addressOf(here, "take", ID), `https://host/studio/?__theme=dark&take=${ID}`);
  assert.equal(addressOf(here), "https://host/studio/?__theme=dark");
});
