// Builds DOM elements without markup, so that values are always text.

// create("button", { class: "rp-play", text: "Play", "aria-pressed": false, onclick }, ...children). A function is an
// event listener, a boolean turns an attribute on or off (aria-* has it as text), undefined leaves it out.
export function create(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean" && !name.startsWith("aria-")) node.toggleAttribute(name, value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const button = (attributes, ...children) => create("button", { type: "button", ...attributes }, ...children);

// A listener for a button that would do something twice if it is clicked doubly by habit.
export const once = (act) => (event) => event.detail < 2 && act(event);

// Whether an element is displayed. Safari before 17.4 has no checkVisibility().
export const isShown = (element) => element.checkVisibility?.() ?? element.getClientRects().length > 0;

export const svgElement = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);

// A drawing of 24 by 24. shapes: path data.
export function icon(...shapes) {
  const drawing = svgElement("svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  for (const shape of shapes) {
    const path = svgElement("path");
    path.setAttribute("d", shape);
    drawing.append(path);
  }
  return drawing;
}
