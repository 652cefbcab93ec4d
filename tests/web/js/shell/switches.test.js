// The theme: the browser's until one is chosen.

import assert from "node:assert/strict";
import { test } from "node:test";

const THEME = "reprise.theme";
const kept = new Map();
const classes = new Set();
let changed = () => {}; // the observer of the body's class

function mark(name, on) {
  if (classes.has(name) === on) return;
  classes[on ? "add" : "delete"](name);
  changed();
}

globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
globalThis.location = "http://here/";
globalThis.MutationObserver = class {
  constructor(act) {
    changed = act;
  }
  observe() {}
};
globalThis.document = {
  documentElement: { toggleAttribute() {} },
  body: { classList: { contains: (name) => classes.has(name), toggle: mark } },
  addEventListener() {},
};
const { begin } = await import("../../../../web/static/shell/switches.js");

// A page that opens with this stored theme.
function open(theme, address = "http://here/") {
  kept.clear();
  if (theme) kept.set(THEME, theme);
  classes.clear();
  changed = () => {};
  globalThis.location = address;
  begin();
}

test("a chosen theme is kept when the browser's theme changes", () => {
  open("light");
  mark("dark", true);
  assert.equal(classes.has("dark"), false);
  open("dark");
  assert.equal(classes.has("dark"), true);
  mark("dark", false);
  assert.equal(classes.has("dark"), true);
});

test("a theme that is chosen after the page was opened is kept, too", () => {
  open(null);
  mark("dark", true);
  assert.equal(classes.has("dark"), true, "nothing is chosen: the browser's theme is shown");
  kept.set(THEME, "light");
  mark("dark", false);
  mark("dark", true);
  assert.equal(classes.has("dark"), false);
});

test("a theme in the address takes precedence", () => {
  open("light", "http://here/?__theme=dark");
  mark("dark", true);
  assert.equal(classes.has("dark"), true);
});
