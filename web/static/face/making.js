// Elements, made without markup: what a script shows is text, whatever is in it.

// make("button", { type: "button", text: "Play", "aria-pressed": false, onclick }, ...children)
function make(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean" && !name.startsWith("aria-")) node.toggleAttribute(name, value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// A drawing of 24 by 24, of one path.
function icon(path) {
  const name = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(name, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(document.createElementNS(name, "path"));
  drawing.firstChild.setAttribute("d", path);
  return drawing;
}
