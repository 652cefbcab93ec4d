// The modal dialog in a component. Buttons of the page that match `openers` call open(). It closes with its own button and
// with a click beside it, but not with text that is selected beyond its edge: that click, too, is sent to the dialog.
export function dialogIn(element, openers, open) {
  const dialog = element.querySelector("dialog");
  let pressedBeside = false;
  dialog.querySelector(".rp-dialog-close").onclick = () => dialog.close();
  dialog.addEventListener("pointerdown", (event) => (pressedBeside = isBeside(dialog, event)));
  // Not `onclick`: if it returned false, it would cancel the default actions of the form's controls.
  dialog.addEventListener("click", (event) => pressedBeside && isBeside(dialog, event) && dialog.close());
  document.addEventListener("click", ({ target }) => target.closest?.(openers) && open());
  return dialog;
}

// Whether a pointer is beside a dialog, whose backdrop and padding have no elements of their own.
function isBeside(dialog, { target, clientX, clientY }) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return target === dialog && (clientX < left || clientX > right || clientY < top || clientY > bottom);
}
