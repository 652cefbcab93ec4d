// Deletions can be undone, and run once.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("takes", "library"));

// A minimal element, enough for rows and buttons.
class Element {
  constructor() {
    Object.assign(this, { children: [], parent: null, marks: new Set(), pressed: () => {} });
  }
  append(...nodes) {
    for (const node of nodes.filter((each) => each instanceof Element)) this.children.push(Object.assign(node, { parent: this }));
  }
  remove() {
    this.parent.children = this.parent.children.filter((node) => node !== this);
    this.parent = null;
  }
  sibling(step) {
    const among = this.parent?.children ?? [];
    return among[among.indexOf(this) + step] ?? null;
  }
  get nextElementSibling() {
    return this.sibling(1);
  }
  get previousElementSibling() {
    return this.sibling(-1);
  }
  contains(node) {
    for (let at = node; at; at = at.parent) if (at === this) return true;
    return false;
  }
  querySelector() {
    return this.tag === "button" ? this : (this.children.map((node) => node.querySelector()).find(Boolean) ?? null);
  }
  setAttribute() {}
  toggleAttribute(name, on) {
    this.marks[on ? "add" : "delete"](name);
  }
  removeAttribute(name) {
    this.marks.delete(name);
  }
  hasAttribute(name) {
    return this.marks.has(name);
  }
  addEventListener(_, listener) {
    this.pressed = listener;
  }
  focus() {
    document.activeElement = this;
  }
}

let left;
globalThis.addEventListener = (name, listener) => name === "pagehide" && (left = listener);
globalThis.document = { createElement: (tag) => Object.assign(new Element(), { tag }), activeElement: null, querySelectorAll: () => [] };
globalThis.window = { fetch: () => {} };
const { deleteWithUndo, deletionFailed, finishDeletions, isDeleted } = await import("../../../../web/static/ui/undo.js");

function rows(count) {
  const list = new Element();
  const nodes = Array.from({ length: count }, () => new Element());
  for (const node of nodes) node.append(document.createElement("button"));
  list.append(...nodes);
  return { list, nodes };
}

const undo = (node) => node.children.at(-1).children.at(-1);
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test.beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
test.afterEach(() => mock.timers.reset());

test("each item is deleted once at its time, also when one deletion finishes others", () => {
  const { list, nodes } = rows(3);
  const done = [];
  nodes.forEach((node, i) => {
    deleteWithUndo(node, () => {
      finishDeletions(list);
      done.push(i);
    });
    deleteWithUndo(node, () => done.push("twice"));
  });
  mock.timers.tick(9_999);
  assert.deepEqual(done, []);
  mock.timers.tick(1);
  assert.deepEqual(done.sort(), [0, 1, 2]);
  finishDeletions(list);
  mock.timers.tick(60_000);
  assert.equal(done.length, 3);
});

test("an undone item stays, and other deletions are applied", () => {
  const { list, nodes } = rows(2);
  const done = [];
  nodes.forEach((node, i) => deleteWithUndo(node, () => done.push(i)));
  undo(nodes[0]).pressed();
  assert.deepEqual(nodes.map(isDeleted), [false, true]);
  assert.equal(document.activeElement, nodes[0].children[0]);
  finishDeletions(list);
  mock.timers.tick(60_000);
  assert.deepEqual(done, [1]);
});

test("focus moves from a deleted item to a remaining one", () => {
  const { nodes } = rows(3);
  deleteWithUndo(nodes[1], () => {});
  deleteWithUndo(nodes[2], () => {}); // it has the focus
  mock.timers.tick(10_000);
  assert.equal(document.activeElement, nodes[0].children[0]);
});

test("an item that the server did not delete reappears", async () => {
  const { nodes } = rows(2);
  deleteWithUndo(nodes[0], () => Promise.resolve(null));
  deleteWithUndo(nodes[1], () => Promise.resolve({}));
  mock.timers.tick(10_000);
  await nextTurn();
  assert.deepEqual(nodes.map(isDeleted), [false, true]);
});

test("an item of a list whose next answer takes long does not reappear for a moment", () => {
  const { nodes } = rows(1);
  deleteWithUndo(nodes[0], () => {});
  for (const ms of [10_000, 29_999]) mock.timers.tick(ms);
  assert.ok(isDeleted(nodes[0]));
  mock.timers.tick(1);
  assert.ok(!isDeleted(nodes[0]));
});

test("an item whose deletion is refused reappears at once, and can be deleted again", () => {
  const { list, nodes } = rows(3);
  for (const node of nodes) deleteWithUndo(node, () => {});
  finishDeletions(nodes[0]);
  finishDeletions(nodes[1]);
  deletionFailed(undefined);
  deletionFailed(nodes[1]);
  assert.deepEqual(nodes.map(isDeleted), [true, false, true]);
  deletionFailed(list);
  assert.deepEqual(nodes.map(isDeleted), [false, false, true], "the last deletion can still be undone");
  mock.timers.tick(10_000);
  deleteWithUndo(nodes[1], () => {});
  finishDeletions(nodes[1]);
  mock.timers.tick(29_999);
  assert.deepEqual(nodes.map(isDeleted), [false, true, true]);
});

test("focus returns to an item that reappears, unless it was moved meanwhile", async () => {
  const { nodes } = rows(2);
  const [item, other] = nodes.map((node) => node.children[0]);
  for (const elsewhere of [null, {}]) {
    deleteWithUndo(nodes[0], () => Promise.resolve(null));
    mock.timers.tick(10_000);
    assert.equal(document.activeElement, other);
    if (elsewhere) document.activeElement = elsewhere;
    await nextTurn();
    assert.equal(document.activeElement, elsewhere ?? item);
  }
});

test("further items are hidden with an item, and reappear with it", async () => {
  const { nodes } = rows(3);
  deleteWithUndo(nodes[0], () => Promise.resolve(null), { also: [nodes[1], nodes[2]] });
  assert.deepEqual(nodes.map(isDeleted), [true, true, true]);
  undo(nodes[0]).pressed();
  assert.deepEqual(nodes.map(isDeleted), [false, false, false]);
  deleteWithUndo(nodes[1], () => Promise.resolve({}));
  deleteWithUndo(nodes[0], () => Promise.resolve(null), { also: [nodes[1], nodes[2]] });
  mock.timers.tick(10_000);
  await nextTurn();
  assert.deepEqual(nodes.map(isDeleted), [false, true, false]);
});

test("leaving the page applies all deletions, also of items no longer shown", () => {
  const { nodes } = rows(2);
  const done = [];
  nodes.forEach((node, i) => deleteWithUndo(node, () => done.push(i)));
  nodes[0].remove();
  left();
  assert.deepEqual(done, [0, 1]);
  mock.timers.tick(60_000);
  assert.deepEqual(done, [0, 1]);
});
