// What Gradio's own components lack for the keyboard: arrow keys between tabs, and lists that close when they are left.

const tabs = () => [...document.querySelectorAll("#rp-tabs [role=tablist] [role=tab]")];

// The position to which a key moves in a row of so many tabs; null for other keys.
export function moved(key, from, count) {
  const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? null : (to + count) % count;
}

// Tab reaches only the selected tab, and from it what the tab shows. Set before each move, because Gradio makes tabs anew.
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

// Gradio leaves a list of choices open that was left with the Tab key; its Escape key closes it.
function leave({ target, relatedTarget }) {
  if (target.role !== "combobox" || !relatedTarget) return;
  setTimeout(() => {
    if (target.ariaExpanded !== "true" || target === document.activeElement) return;
    document.body.addEventListener("keydown", (event) => event.stopPropagation(), { once: true }); // it stops no speech
    target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  });
}

export function listen() {
  document.addEventListener("keydown", press, { capture: true });
  document.addEventListener("focusout", leave);
}
