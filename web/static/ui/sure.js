// A button that deletes what cannot be brought back. The first press asks, a second one acts; after a while the question is
// withdrawn.

import { button } from "./elements.js";
import { words } from "./words.js";

const SURE_FOR = 6000; // ms

// text: of the button at rest; label: its name for screen readers then, where the text is not enough. Returns the button.
export function sureButton(attributes, { text, label, sure = words("takes.delete_sure"), act }) {
  let asked = null;
  const node = button({ ...attributes, onclick: () => press() });
  const rest = () => {
    clearTimeout(asked);
    asked = null;
    node.textContent = text;
    node.removeAttribute("data-sure");
    if (label) node.setAttribute("aria-label", label);
  };
  const press = () => {
    if (asked) {
      rest();
      act();
      return;
    }
    node.textContent = sure;
    node.setAttribute("data-sure", "");
    node.removeAttribute("aria-label");
    asked = setTimeout(rest, SURE_FOR);
  };
  rest();
  return node;
}
