// Deletions that can be undone. A deleted item is replaced at once by a line with an Undo button. The server deletes it
// after a while, when the page unloads, or before an action whose result depends on it.

import { button, create } from "./elements.js";
import { whenLeaving } from "../connection/leaving.js";
import { words } from "./words.js";

const UNDO_FOR = 10_000; // ms
const BACK_AFTER = 30_000; // ms, after which the node is restored: the server has not deleted the item. A list may take long to arrive

const waiting = new Map(); // pending deletions, by the item's node
const sent = new Map(); // functions that restore the items of deletions that the server may not have done, by node
whenLeaving(() => [...waiting.keys()].forEach(finish));

// node: the item's, removed by its creator once the server has deleted the item. act(): deletes the item; it may return a
// promise of a truthy value if the server did. focus: whether the Undo button takes the focus. also: nodes of further
// items, which are hidden meanwhile.
export function deleteWithUndo(node, act, { focus = true, also = [] } = {}) {
  if (isDeleted(node)) return;
  const line = create("div", { class: "rp-gone", role: "status" }, create("span", { text: words("takes.deleted") }));
  const undo = button({ class: "rp-quiet", text: words("library.undo"), onclick: () => bringBack(node) });
  line.append(" ", undo);
  node.append(line);
  const nodes = [node, ...also.filter((each) => !isDeleted(each))];
  for (const each of nodes) each.toggleAttribute("data-gone", true);
  waiting.set(node, { line, nodes, act, timer: setTimeout(() => finish(node), UNDO_FOR) });
  if (focus) undo.focus();
}

// Finishes all pending deletions within an element at once.
export function finishDeletions(within) {
  for (const node of [...waiting.keys()]) if (within.contains(node)) finish(node);
}

export const isDeleted = (node) => node.hasAttribute("data-gone");

function bringBack(node) {
  if (!waiting.has(node)) return; // it is being deleted
  const { line, nodes, timer } = waiting.get(node);
  clearTimeout(timer);
  waiting.delete(node);
  restore(nodes, line);
  focusOn(node);
}

function finish(node) {
  if (!waiting.has(node)) return;
  const { line, nodes, timer, act } = waiting.get(node);
  clearTimeout(timer);
  waiting.delete(node);
  const held = node.contains(document.activeElement);
  line.querySelector("button").disabled = true;
  if (held) focusOn(neighbour(node));
  const focused = document.activeElement;
  const reappear = () => {
    restore(nodes, line);
    if (held && document.activeElement === focused) focusOn(node);
  };
  const done = act();
  if (done?.then) done.then((deleted) => deleted || reappear());
  else {
    const late = setTimeout(() => deletionFailed(node), BACK_AFTER);
    sent.set(node, () => {
      clearTimeout(late);
      reappear();
    });
  }
}

// Restores the items within an element whose deletions were sent. Called when the server has refused them, or will not answer.
export function deletionFailed(within) {
  for (const [node, reappear] of [...sent]) {
    if (!within?.contains(node)) continue;
    sent.delete(node);
    reappear();
  }
}

function restore(nodes, line) {
  line.remove();
  for (const node of nodes) node.removeAttribute("data-gone");
}

// The node that takes the focus of a deleted one.
function neighbour(node) {
  for (const step of ["nextElementSibling", "previousElementSibling"]) {
    for (let other = node[step]; other; other = other[step]) if (!isDeleted(other)) return other;
  }
  return null;
}

const focusOn = (node) => node?.querySelector("button, textarea, input")?.focus();
