// The modal dialog in a component. Buttons of the page that match `openers` call open(). It closes with its own button and
// with a click beside it.
export function dialogIn(element, openers, open) {
  const dialog = element.querySelector("dialog");
  dialog.querySelector(".rp-dialog-close").onclick = () => dialog.close();
  // Not `onclick`: if it returned false, it would cancel the default actions of the form's controls.
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  document.addEventListener("click", ({ target }) => target.closest?.(openers) && open());
  return dialog;
}
