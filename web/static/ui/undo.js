// Deletions that can be undone. What is deleted is replaced at once by a line with a button that brings it back; the server
// deletes it after a while, when the page is left, or when something is done whose result depends on it.

import { button, create } from "./elements.js";
import { whenLeaving } from "./leaving.js";
import { words } from "./words.js";

const UNDO_FOR = 10_000; // ms
const BACK_AFTER = 5000; // ms: the server has not deleted it

const waiting = new Map(); // by the node that stands for what is deleted
whenLeaving(() => [...waiting.keys()].forEach(finish));

// node: stands for what is deleted, and is removed by whoever made it once the server has done so. act: deletes; it may
// return a promise of something true if the server did. focus: whether the button that brings it back takes the focus.
export function deleteWithUndo(node, act, { focus = true } = {}) {
  if (isDeleted(node)) return;
  const line = create("div", { class: "rp-gone", role: "status" }, create("span", { text: words("takes.deleted") }));
  const undo = button({ class: "rp-quiet", text: words("library.undo"), onclick: () => bringBack(node) });
  line.append(" ", undo);
  node.append(line);
  node.toggleAttribute("data-gone", true);
  waiting.set(node, { line, act, timer: setTimeout(() => finish(node), UNDO_FOR) });
  if (focus) undo.focus();
}

// Deletes at once what is waiting within an element.
export function finishDeletions(within) {
  for (const node of [...waiting.keys()]) if (within.contains(node)) finish(node);
}

export const isDeleted = (node) => node.hasAttribute("data-gone");

function bringBack(node) {
  if (!waiting.has(node)) return; // it is being deleted
  const { line, timer } = waiting.get(node);
  clearTimeout(timer);
  waiting.delete(node);
  restore(node, line);
  focusOn(node);
}

function finish(node) {
  if (!waiting.has(node)) return;
  const { line, timer, act } = waiting.get(node);
  clearTimeout(timer);
  waiting.delete(node);
  const held = node.contains(document.activeElement);
  line.querySelector("button").disabled = true;
  if (held) focusOn(neighbour(node));
  const done = act();
  if (done?.then) done.then((deleted) => deleted || restore(node, line));
  else setTimeout(() => restore(node, line), BACK_AFTER);
}

function restore(node, line) {
  line.remove();
  node.removeAttribute("data-gone");
}

// What takes the focus of a node that goes.
function neighbour(node) {
  for (const step of ["nextElementSibling", "previousElementSibling"]) {
    for (let other = node[step]; other; other = other[step]) if (!isDeleted(other)) return other;
  }
  return null;
}

const focusOn = (node) => node?.querySelector("button, textarea, input")?.focus();
