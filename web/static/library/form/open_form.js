// The card of a voice while it is edited or renamed.

import { editedCard, fillFields, renamedCard } from "../card.js";
import { changes, outdated } from "./form_fields.js";
import { showPortrait } from "../portraits.js";
import { create } from "../../ui/elements.js";
import { mayFocus } from "../../ui/keyboard.js";
import { words } from "../../ui/words.js";

export class OpenForm {
  // how: "edit" or "name".
  constructor(voice, how) {
    const inside = { edit: editedCard, name: renamedCard }[how];
    Object.assign(this, { voice, how, gone: false, sent: false, from: null }); // gone: the voice was deleted elsewhere
    this.node = create("li", { "data-id": voice.id }, inside(voice));
    this.form = this.node.querySelector("form");
    this.name = this.form.elements.name;
    this.notice = this.node.querySelector(".rp-notice");
  }

  get id() {
    return this.voice.id;
  }

  get changes() {
    return changes(this.form, this.voice);
  }

  get changed() {
    return Object.keys(this.changes).length > 0;
  }

  // Whether it is being saved.
  get busy() {
    return this.node.getAttribute("aria-busy") === "true";
  }

  // Whether it was changed and is not being saved.
  get unsaved() {
    return this.changed && !this.busy;
  }

  // Shows changes that were made elsewhere. voice: undefined if it was deleted.
  update(voice) {
    if (voice) fillFields(this.form, outdated(this.form, this.voice, voice), voice);
    if (!voice && !this.gone) this.warn(words("library.deleted_elsewhere"));
    if (voice && this.gone) this.warn("");
    Object.assign(this, { voice: voice ?? this.voice, gone: !voice });
    if (this.how === "edit") this.showPicture();
  }

  showPicture() {
    const [choose, remove] = ["picture", "no_picture"].map((act) => this.form.querySelector(`[data-act=${act}]`));
    showPortrait(this.form.querySelector(".rp-lib-picture .rp-portrait"), this.voice);
    if (!this.voice.picture && remove === document.activeElement) choose.focus();
    remove.hidden = !this.voice.picture;
  }

  // Called when it is sent to the server.
  send() {
    this.wait(true);
    Object.assign(this, { sent: true, from: document.activeElement });
  }

  // on: whether it is being saved.
  wait(on) {
    this.node.setAttribute("aria-busy", String(on));
    for (const button of this.node.querySelectorAll("[data-act=save]")) button.disabled = on;
  }

  // Shows why the server has refused it.
  complain(text) {
    this.warn(text);
    this.wait(false);
    if (mayFocus(this.from)) this.name.focus();
  }

  // text: "" for none.
  warn(text) {
    this.notice.textContent = text;
    this.notice.hidden = !text;
  }
}
