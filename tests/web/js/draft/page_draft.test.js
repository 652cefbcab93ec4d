// What a browser's pages forget when all of the owner's data is deleted, and when the settings are opened.

import assert from "node:assert/strict";
import { test } from "node:test";

class Channel {
  constructor(name) {
    Object.assign(this, { name, sent: 0 });
    channels.push(this);
  }
  postMessage() {
    this.sent += 1;
  }
}

class Storage extends Map {
  getItem(key) {
    return this.get(key) ?? null;
  }
  setItem(key, value) {
    this[key] = value; // for Object.keys
    this.set(key, value);
  }
  removeItem(key) {
    delete this[key];
    this.delete(key);
  }
}

const channels = [];
let forgotten = 0;
globalThis.window = globalThis;
globalThis.BroadcastChannel = Channel;
globalThis.addEventListener = () => {};
globalThis.location = new URL("http://here/");
globalThis.history = {};
globalThis.document = new EventTarget();
document.addEventListener("reprise:forgotten", () => (forgotten += 1));
globalThis.sessionStorage = new Storage();
globalThis.localStorage = new Storage();
const { forgetEverything, openIfChanged } = await import("../../../../web/static/draft/page_draft.js");
const [others] = channels;

function fill() {
  forgotten = 0;
  for (const storage of [sessionStorage, localStorage]) {
    for (const key of ["reprise.takes", ...OTHERS]) storage.setItem(key, "x");
  }
}

const kept = (storage) => [...storage.keys()].sort();
const OTHERS = ["another.page", "reprise.owner", "reprise.owner/another"];

test("the page whose user deletes the data clears the browser, its own parts, and tells the other pages", () => {
  fill();
  forgetEverything();
  assert.deepEqual([kept(localStorage), kept(sessionStorage), forgotten, others.sent], [OTHERS, OTHERS, 1, 1]);
});

test("the other pages clear their own storage and parts, and tell no one", () => {
  fill();
  others.onmessage({ data: "" });
  assert.deepEqual([kept(sessionStorage), forgotten, others.sent], [OTHERS, 1, 1]);
});

test("the settings are opened if one of them is in force", () => {
  const defaults = ["", 0.6, 0.95, 50, 0, ""];
  assert.equal(openIfChanged(["", 0.6, 0.95, 50, 0, "de"], defaults).open, true, "the language is the last one");
  assert.equal(openIfChanged(defaults, defaults).open, undefined);
});
