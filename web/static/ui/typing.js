// Writes into a text field as if typed, so that the browser can undo it. all: replaces the whole text.
export function typeInto(field, text, { all = false } = {}) {
  field.focus();
  if (all) field.select();
  if (document.execCommand("insertText", false, text)) return;
  field.setRangeText(text, all ? 0 : field.selectionStart, all ? field.value.length : field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
