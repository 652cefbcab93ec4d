// Keyboard and screen reader support that Gradio's components lack: arrow keys between tabs, lists that close when they
// lose the focus, the states of accordions, the name and the focus of a menu, and the focus of what an event shows.

import { isShown } from "./elements.js";
import { words } from "./words.js";

const FRAMES = 60; // for which an element may be awaited

const tabs = () => [...document.querySelectorAll("#rp-tabs [role=tablist] [role=tab]")];

// Whether a key belongs to an input method, which converts what was typed. Safari tells it by the code 229 alone if the key
// ends the conversion.
export const composes = ({ isComposing, keyCode }) => isComposing || keyCode === 229;

// The position to which a key moves in a row of `count` tabs; null for other keys.
export function moved(key, from, count) {
  const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? null : (to + count) % count;
}

// The Tab key reaches only the selected tab, then its content. Set on each press, because Gradio recreates the tabs.
function rove() {
  for (const tab of tabs()) tab.tabIndex = tab.ariaSelected === "true" ? 0 : -1;
}

function press(event) {
  if (event.key === "Tab") return rove();
  const tab = event.target.closest?.("#rp-tabs [role=tab]");
  if (!tab || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return undefined;
  const row = tabs();
  const to = moved(event.key, row.indexOf(tab), row.length);
  if (to === null) return undefined;
  event.preventDefault();
  row[to].click();
  return row[to].focus();
}

// Gradio leaves a dropdown list open when the Tab key moves the focus away. Escape closes it.
function leave({ target, relatedTarget }) {
  if (target.role !== "combobox" || !relatedTarget) return;
  setTimeout(() => {
    if (target.ariaExpanded !== "true" || target === document.activeElement) return;
    document.body.addEventListener("keydown", (event) => event.stopPropagation(), { once: true }); // so that it does not stop speech
    target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  });
}

// Gradio's accordions do not tell whether they are open, and their arrow is a letter. Called after each event that could show
// or open one.
export function describeAccordions() {
  for (const head of document.querySelectorAll("button.label-wrap")) {
    head.ariaExpanded = head.classList.contains("open");
    head.querySelector(".icon").ariaHidden = true;
  }
}

// Whether an answer may move the focus, which it does not while the user is in a field. from: the field that the request
// was sent from, if any.
export function mayFocus(from = null) {
  const held = document.activeElement;
  return held === from || !held?.matches("input, textarea, select") || !isShown(held);
}

// Focuses an element in the middle of the window as soon as it is shown; not at all if it is not shown soon, or the user is in
// a field by then.
export async function focusWhenShown(id) {
  for (let frame = 0; frame < FRAMES; frame++) {
    const element = document.getElementById(id);
    if (element && isShown(element)) {
      if (!mayFocus()) return;
      element.scrollIntoView({ block: "center" });
      element.focus({ preventScroll: true });
      return;
    }
    await new Promise(requestAnimationFrame);
  }
}

// The menu of the tabs that do not fit closes when one is chosen, and would take the focus with it: its button keeps it.
function keepMenu({ target, isTrusted }) {
  const menu = isTrusted && target.closest?.("#rp-tabs .overflow-dropdown")?.closest(".overflow-menu");
  if (menu) setTimeout(() => menu.querySelector("button").focus());
}

// Gives the menu of the tabs that do not fit a name in the page's language, as soon as Gradio has made it. It stays.
export function nameOverflow() {
  const name = () => {
    const menu = document.querySelector("#rp-tabs .overflow-menu > button");
    if (!menu) return;
    made.disconnect();
    menu.setAttribute("aria-label", words("shell.more_tabs"));
  };
  const made = new MutationObserver(name);
  made.observe(document, { childList: true, subtree: true });
}

export function listen() {
  document.addEventListener("keydown", press, { capture: true });
  document.addEventListener("focusout", leave);
  document.addEventListener("click", keepMenu, { capture: true }); // before the menu closes
  for (const event of ["click", "focusin", "reprise:tab"]) document.addEventListener(event, () => setTimeout(describeAccordions));
}
