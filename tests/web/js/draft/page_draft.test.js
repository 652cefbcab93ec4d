// What a page fills in when it opens, what a browser's pages forget when all of the owner's data is deleted, and when the
// settings are opened.

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
const listeners = new Map(); // of the last page, by event
globalThis.addEventListener = (type, act) => listeners.set(type, act);
globalThis.location = new URL("http://here/");
globalThis.history = { state: null, replaceState: (state) => (history.state = state), pushState: (state) => (history.state = state) };
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

const PAGE = "../../../../web/static/draft/page_draft.js";
const VOICE = "a".repeat(32);
const unchanged = { __type__: "update" };
const tab = (selected) => ({ __type__: "update", selected });

// Opens a page of Anna, who has a draft: its functions. use(event, id, more): the user's event in a component.
let pages = 0;
async function open(address = "http://here/") {
  globalThis.location = new URL(address);
  history.state = null;
  const { arrive } = await import("../../../../web/static/draft/deep_links.js");
  arrive();
  localStorage.setItem("reprise.owner", "key");
  localStorage.setItem("reprise.voice.anna", "picked");
  sessionStorage.setItem("reprise.draft.anna", JSON.stringify({ "rp-text": "Once.", "rp-seed": "7", tab: "script" }));
  const page = await import(`${PAGE}?${++pages}`);
  page.draft.opened("anna");
  const use = (event, id, more) => listeners.get(event)({ target: { closest: () => id && { id } }, isTrusted: true, ...more });
  return { ...page, use };
}

test("a page fills in the draft and shows its tab", async () => {
  const { fillIn, opening, use } = await open();
  assert.deepEqual(opening(), ["key", "picked"]);
  use("click", null);
  use("input", "rp-text", { isTrusted: false });
  assert.deepEqual(fillIn(["rp-text", "rp-seed", "rp-other"]), ["Once.", "7", unchanged, tab("script")]);
  assert.deepEqual(history.state, { tab: "script" });
  assert.deepEqual(fillIn(["rp-text"]), [unchanged, unchanged], "once");
});

test("what the user has entered, and the tab that the user has chosen, stay", async () => {
  const { fillIn, keepDraft, keepTab, use } = await open();
  use("input", "rp-text");
  keepDraft(["rp-text"], ["Twice."]);
  use("click", "rp-tab-library-button");
  keepTab("library");
  assert.deepEqual(fillIn(["rp-text", "rp-seed"]), [unchanged, "7", unchanged]);
  assert.deepEqual(history.state, { tab: "library" });
  assert.equal(JSON.parse(sessionStorage.getItem("reprise.draft.anna"))["rp-text"], "Twice.");
  let shown = null;
  document.addEventListener("reprise:tab", ({ detail }) => (shown = detail), { once: true });
  keepTab("new");
  assert.deepEqual([shown, history.state], ["new", { tab: "new" }]);
});

test("a link's tab and voice are shown in place of those of the draft", async () => {
  const { draft, fillIn, opening } = await open(`http://here/?voice=${VOICE}`);
  assert.deepEqual(opening(), ["key", VOICE]);
  assert.deepEqual(fillIn(["rp-seed"]), ["7", tab("speak")]);
  assert.deepEqual([history.state, draft.voice], [{ tab: "speak" }, "picked"]);
});

test("a page without a draft begins with the first tab", async () => {
  const { draft, fillIn } = await open();
  draft.opened("ben");
  assert.deepEqual(fillIn(["rp-text"]), [unchanged, unchanged]);
  assert.deepEqual(history.state, { tab: "speak" });
});

test("the settings are opened if one of them is in force", () => {
  const defaults = ["", 0.6, 0.95, 50, 0, ""];
  assert.equal(openIfChanged(["", 0.6, 0.95, 50, 0, "de"], defaults).open, true, "the language is the last one");
  assert.equal(openIfChanged(defaults, defaults).open, undefined);
});
