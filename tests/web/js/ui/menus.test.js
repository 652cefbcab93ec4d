// Menus inside the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { closeFromOutside, keepInPage, MENU } from "../../../../web/static/ui/menus.js";

let scrolled = []; // what the page was scrolled to

// A menu whose list has these edges before it is moved, in a page of 375 pixels. Returns where the list is moved.
function movedBy(left, right, { matches = MENU } = {}) {
  let opened;
  globalThis.document = { addEventListener: (_, listener) => (opened = listener), documentElement: { clientWidth: 375 } };
  scrolled = [];
  const list = { style: { translate: "-3px" }, getBoundingClientRect: () => ({ left, right }) };
  list.scrollIntoView = ({ block }) => scrolled.push(block);
  keepInPage();
  opened({ target: { matches: (selector) => selector === matches, querySelector: () => list } });
  delete globalThis.document;
  return list.style.translate;
}

test("a list that ends outside of the page is moved into it", () => {
  assert.equal(movedBy(228, 500), "-133px");
  assert.equal(movedBy(92, 368), "-1px");
});

test("a list inside the page stays where it is", () => {
  assert.equal(movedBy(92, 367), "");
  assert.deepEqual(scrolled, ["nearest"], "its end may be below the page");
});

test("a list that is wider than the page begins at its left edge", () => {
  assert.equal(movedBy(30, 500), "-22px");
});

test("other details are not moved", () => {
  assert.equal(movedBy(228, 500, { matches: "details" }), "-3px");
  assert.deepEqual(scrolled, []);
});

test("a click elsewhere closes a menu, but not text that is selected beyond its edge", () => {
  const field = {};
  const menu = { open: true, contains: (node) => node === field };
  const listeners = {};
  globalThis.document = { addEventListener: (name, listener) => (listeners[name] = listener), querySelectorAll: () => (menu.open ? [menu] : []) };
  closeFromOutside();
  listeners.pointerdown?.({ target: field });
  listeners.click({ target: {} }); // released outside: browsers send it to the element that holds both
  assert.equal(menu.open, true);
  listeners.click({ target: {} }); // of a key
  assert.equal(menu.open, false);
  menu.open = true;
  listeners.click({ target: field }); // of a key, in the menu
  assert.equal(menu.open, true);
  listeners.pointerdown?.({ target: {} });
  listeners.click({ target: {} });
  assert.equal(menu.open, false);
  delete globalThis.document;
});
