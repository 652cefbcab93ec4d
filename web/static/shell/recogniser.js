// The dialog of the speech recogniser, which explains it and installs it if it is missing. Buttons with
// [data-rp-recogniser] open it. Its value: see web/tabs/status/recogniser.py. Its events: `refresh`, `install`.

import { dialogIn } from "../ui/dialog.js";
import { create } from "../ui/elements.js";
import { draw } from "../ui/icons.js";
import { pageLanguage, words } from "../ui/words.js";

const PERIOD = 1_000; // ms between polls during installation

// The dialog's texts for a state: { now: the status, act: the button's text, null for no button }.
export function saysOf(state, chosen, number = String) {
  const { ready, here, allowed, step, part, model, models, package_mb: size } = state;
  if (step === "package") return { now: words("recogniser.installing", { part: part || "faster-whisper" }), act: null };
  if (step === "model") return { now: words("recogniser.downloading", { model }), act: null };
  const sizeOf = (which) => number(models.find(({ name }) => name === which)?.mb ?? 0);
  const mb = sizeOf(chosen);
  if (ready) {
    const now = here ? words("recogniser.ready", { model }) : words("recogniser.absent", { model, mb: sizeOf(model) });
    return { now, act: allowed && !(here && chosen === model) ? words("recogniser.use", { mb }) : null };
  }
  if (!allowed) return { now: words("recogniser.operator"), act: null };
  return { now: words("recogniser.installs", { size: number(size), mb }), act: words("recogniser.install") };
}

class Recogniser {
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { props, trigger, wish: null });
    draw(element);
    this.find = (selector) => element.querySelector(selector);
    this.dialog = dialogIn(element, "[data-rp-recogniser]", () => this.open());
    this.form = this.find("form");
    this.dialog.onclose = () => (this.wish = null);
    this.form.elements.model.onchange = () => this.show();
    this.form.onsubmit = (event) => this.install(event);
    watch("value", () => this.answered());
    this.answered();
  }

  get ready() {
    return Boolean(this.props.value?.ready);
  }

  // Calls wish() at once if the recogniser is ready. Otherwise opens the dialog and calls it after installation.
  offer(wish) {
    if (this.ready) wish();
    else this.open(wish);
  }

  open(wish = null) {
    this.wish = wish;
    this.trigger("refresh");
    this.show();
    this.dialog.showModal();
  }

  install(event) {
    event.preventDefault();
    this.trigger("install", { model: this.form.elements.model.value });
  }

  answered() {
    const { value } = this.props;
    if (!value) return;
    const select = this.form.elements.model;
    const current = JSON.stringify([value.models, value.model]);
    if (current !== this.rendered) {
      this.rendered = current;
      const name = ({ name: text, mb }) => (mb ? words("recogniser.size", { name: text, mb: this.number(mb) }) : text);
      select.replaceChildren(...value.models.map((each) => create("option", { value: each.name, text: name(each) })));
      select.value = value.model;
    }
    this.show();
    clearTimeout(this.later);
    if (value.step) this.later = setTimeout(() => this.trigger("refresh"), PERIOD);
    const { wish } = this;
    if (!value.ready || !wish) return;
    this.dialog.close();
    wish();
  }

  show() {
    const { value } = this.props;
    if (!value) return;
    const { now, act } = saysOf(value, this.form.elements.model.value, (mb) => this.number(mb));
    const line = this.find(".rp-recogniser-now");
    if (line.textContent !== now) line.textContent = now; // screen readers would repeat it
    this.form.hidden = !value.allowed || Boolean(value.step);
    const button = this.find(".rp-dialog-save");
    button.hidden = !act;
    button.textContent = act ?? "";
    this.find(".rp-recogniser-progress").hidden = !value.step;
    const failed = this.find(".rp-dialog-message");
    failed.hidden = !value.failure || Boolean(value.step);
    if (failed.textContent !== value.failure) failed.textContent = value.failure;
  }

  number(value) {
    return new Intl.NumberFormat(pageLanguage()).format(value);
  }
}

export function mount(component) {
  window.repriseRecogniser = new Recogniser(component);
}
