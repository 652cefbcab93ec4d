// Writes into a text field as if typed, so that the browser can undo it. all: replaces the whole text.
export function typeInto(field, text, { all = false } = {}) {
  field.focus();
  if (all) field.select();
  if (!asOneInput(() => document.execCommand("insertText", false, text))) {
    field.setRangeText(text, all ? 0 : field.selectionStart, all ? field.value.length : field.selectionEnd, "end");
  }
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

// Chromium sends two events for each line, on each of which Gradio measures its text field: a long text would take seconds.
function asOneInput(write) {
  const hide = (event) => event.stopImmediatePropagation();
  addEventListener("input", hide, { capture: true });
  try {
    return write();
  } finally {
    removeEventListener("input", hide, { capture: true });
  }
}
