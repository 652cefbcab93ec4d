// The control that takes the focus when a change of a voice is answered. The pressed one is gone by then.

export class NextFocus {
  // element: contains the controls.
  constructor(element) {
    Object.assign(this, { element, id: null, selector: "" });
  }

  // Chooses a control of the voice with this id in a list. Both are selectors.
  choose(id, list, controls) {
    Object.assign(this, { id, selector: `${list} [data-id="${CSS.escape(id)}"] :is(${controls})` });
  }

  // Called when an answer about this voice is shown. Waits for another one if the control is not there yet, or if something else still
  // has the focus: the answer may be to an earlier change, whose list can name a voice both among the others and as deleted.
  answered(id) {
    const control = id === this.id && this.element.querySelector(this.selector);
    if (!control || document.activeElement !== document.body) return;
    this.id = null;
    control.focus({ preventScroll: true });
  }
}
