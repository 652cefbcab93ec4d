// The first steps are shown before the server answers, except to those for whom they are not.

import assert from "node:assert/strict";
import { test } from "node:test";

const WELCOMED = "reprise.welcomed";
const kept = new Map();
globalThis.localStorage = {
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, value) => kept.set(key, value),
  removeItem: (key) => kept.delete(key),
};
globalThis.window = { reprise: { beginWriting() {} } };
const { mount } = await import("../../../../web/static/shell/welcome.js");

// Opens a page. answer(made): the server's answer. shown(): whether the first steps are seen.
function open() {
  const page = new EventTarget();
  const attributes = new Set();
  const toggleAttribute = (name, on) => attributes[on ? "add" : "delete"](name);
  globalThis.document = Object.assign(page, { documentElement: { toggleAttribute }, querySelector: () => null });
  const [skip, props] = [{}, { value: null }];
  let changed = () => {};
  mount({ element: { querySelector: () => skip }, props, watch: (_, act) => (changed = act) });
  return {
    shown: () => !attributes.has("data-rp-welcomed"),
    close: () => skip.onclick(),
    speak: () => page.dispatchEvent(new Event("reprise:spoken")),
    save: () => page.dispatchEvent(new Event("reprise:saved")),
    answer(made) {
      props.value = { made };
      changed();
    },
  };
}

test("a new visitor sees the first steps from the start until they are closed", () => {
  kept.clear();
  let page = open();
  assert.ok(page.shown());
  page.answer(false);
  assert.ok(page.shown());
  page = open();
  assert.ok(page.shown());
  page.close();
  assert.ok(!page.shown());
  page.answer(false);
  assert.ok(!page.shown());
  page = open();
  assert.ok(!page.shown());
  page.answer(true);
  page.answer(false);
  assert.ok(!page.shown(), "they were closed for good");
  assert.equal(kept.get(WELCOMED), "yes");
});

test("a visitor who has made something sees them neither now nor at the next visit, until all of it is deleted", () => {
  kept.clear();
  let page = open();
  page.answer(true);
  assert.ok(!page.shown());
  page = open();
  assert.ok(!page.shown());
  page.answer(false);
  assert.ok(page.shown());
  assert.ok(open().shown());
});

test("they stay while the first take is spoken, and are not shown at the next visit", () => {
  kept.clear();
  const page = open();
  page.answer(false);
  page.speak();
  assert.ok(page.shown());
  assert.ok(!open().shown());
});

test("they go when a voice is saved, before Speak is opened", () => {
  kept.clear();
  const page = open();
  page.answer(false);
  page.save();
  assert.ok(!page.shown());
  assert.ok(!open().shown());
});

test("they can be closed where the browser stores nothing", () => {
  kept.clear();
  const refuse = () => {
    throw new Error("refused");
  };
  const storage = globalThis.localStorage;
  globalThis.localStorage = { getItem: refuse, setItem: refuse, removeItem: refuse };
  const page = open();
  assert.ok(page.shown());
  page.close();
  page.answer(false);
  assert.ok(!page.shown());
  globalThis.localStorage = storage;
});
