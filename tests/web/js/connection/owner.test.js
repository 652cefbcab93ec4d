// The key of a browser: all of its pages send the same one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { english } from "../helpers.js";
import { mount, ownerKey } from "../../../../web/static/connection/owner.js";
import { useWords } from "../../../../web/static/ui/words.js";

globalThis.location = new URL("http://here/");
const KEY = ownerKey();

let kept, stored;
globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
globalThis.addEventListener = (_, callback) => (stored = callback);

// A page that opens with this stored key: what it sends, after the given steps, and what is stored.
function page(before, ...steps) {
  kept = new Map(before === null ? [] : [[KEY, before]]);
  const props = { value: null };
  let changed;
  mount({ props, watch: (_, callback) => (changed = callback) });
  const take = {
    answer: (token) => changed((props.value = token)),
    other: (token) => kept.set(KEY, token),
    event: (token) => stored({ key: KEY, newValue: token }),
  };
  for (const [step, token] of steps) take[step](token);
  return [props.value, kept.get(KEY) ?? null];
}

test("servers at different paths of one site have keys of their own", () => {
  assert.deepEqual(["/", "/one", "/one/", "/two/"].map((path) => ownerKey(path)), [KEY, `${KEY}/one`, `${KEY}/one`, `${KEY}/two`]);
});

test("a page sends the stored key, or none", () => {
  assert.deepEqual(page(null), [null, null]);
  assert.deepEqual(page("a"), ["a", "a"]);
});

test("the key of an answer is sent and stored, also in place of a forged one", () => {
  assert.deepEqual(page(null, ["answer", "a"]), ["a", "a"]);
  assert.deepEqual(page("forged", ["answer", "a"]), ["a", "a"]);
});

test("of two pages opened at once, both use the key of the first", () => {
  assert.deepEqual(page(null, ["other", "b"], ["answer", "a"]), ["b", "b"]);
  assert.deepEqual(page(null, ["answer", "a"], ["event", "b"]), ["b", "a"]);
});

test("the key is kept for later while a user is logged in", () => {
  assert.deepEqual(page("a", ["answer", null]), [null, "a"]);
});

test("a page says that its browser does not store the key", () => {
  useWords(english("owner"));
  const notice = { hidden: true, textContent: "" };
  const props = { value: null };
  let changed;
  const usual = Object.getOwnPropertyDescriptor(globalThis, "localStorage");
  const refuse = () => {
    throw new Error("no storage");
  };
  Object.defineProperty(globalThis, "localStorage", { configurable: true, get: refuse }); // as browsers refuse
  const element = { querySelector: (name) => (name === ".rp-notice" ? notice : null) };
  mount({ element, props, watch: (_, callback) => (changed = callback) });
  changed((props.value = "a"));
  Object.defineProperty(globalThis, "localStorage", usual);
  assert.deepEqual([props.value, notice.hidden], ["a", false]);
  assert.match(notice.textContent, /^This browser does not store anything for this page/);
  const html = readFileSync(new URL("../../../../web/static/connection/owner.html", import.meta.url), "utf8");
  assert.match(html, /class="[^"]*\brp-notice\b[^"]*"[^>]* hidden/);
});
