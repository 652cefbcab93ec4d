// The rail of voices, to pick, play and mark as favourites. On a narrow page it is a sheet that the voice card opens. Its
// value: { voices, at } from web/tabs/speak/rail.py; at: the server's time. Its events: `renew_links`, `mark`, and `pick`,
// for which the page reads the voice from `reprise.picking`.

import { LinkRefresh } from "../link_refresh.js";
import { marks } from "../../connection/marks.js";
import { Newest } from "../../connection/answers/newest.js";
import { answer, named } from "../../draft/deep_links.js";
import { found, languageName, sorted, soundOf } from "../../library/voices.js";
import { button, create, isShown } from "../../ui/elements.js";
import { draw, drawing } from "../../ui/icons.js";
import { composes } from "../../ui/keyboard.js";
import { LongList } from "../../library/long_list.js";
import { learnColours, portraitOf, showPortrait } from "../../library/portraits.js";
import { pageLanguage, words } from "../../ui/words.js";

const WIDE = "(min-width: 1100px)"; // as in studio.css

// Favourites first, then the model's own voices, the owner's, and samples; each by name.
export function railOrder(voices, language) {
  const rank = ({ built_in: builtIn, favourite, shared }) => (favourite ? 0 : builtIn ? 1 : shared ? 3 : 2);
  return sorted(voices, (one, other) => rank(one) - rank(other), language);
}

class VoiceRail {
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { element, props, trigger, arrived: false, newest: new Newest(), voices: [], rows: new Map(), picked: null, opener: null });
    this.stop = null; // the voice that had the focus last
    draw(element);
    this.find = (selector) => element.querySelector(selector);
    this.list = this.find(".rp-rail-list");
    this.search = this.find("input");
    this.links = new LinkRefresh(() => trigger("renew_links"));
    marks.connect((id, marked) => this.showMark(id, marked));
    this.long = new LongList(this.list, () => this.show());
    this.search.oninput = () => this.long.restart();
    for (const part of [this.list, this.search]) part.onkeydown = (event) => this.move(event);
    this.list.addEventListener("focusin", ({ target }) => this.rove(target.closest("li").dataset.id));
    this.find(".rp-rail-close").onclick = () => this.close();
    document.addEventListener("keydown", (event) => this.key(event), { capture: true });
    // composedPath, because a click may replace its target.
    document.addEventListener("click", (event) => this.opener && !event.composedPath().includes(this.sheet) && this.close());
    document.addEventListener("reprise:picked", ({ detail }) => this.pick(detail, false));
    for (const event of ["playing", "stopped"]) document.addEventListener(`reprise:${event}`, () => this.mark());
    matchMedia(WIDE).addEventListener("change", () => this.close());
    watch("value", () => this.answered());
    this.answered();
  }

  get sheet() {
    return this.element.closest("#rp-rail");
  }

  answered() {
    const { at, voices } = this.props.value ?? {};
    if (!voices || !this.newest.takes(at)) return; // an answer may come after a newer list
    Object.assign(this, { arrived: true, voices });
    for (const voice of voices) voice.favourite = marks.of(voice.id, voice.favourite);
    learnColours(this.voices);
    answer("voice", this.voices.some(({ id }) => id === named("voice")));
    this.links.arrived();
    this.show();
    document.dispatchEvent(new CustomEvent("reprise:coloured", { detail: voices }));
  }

  // ---- the list

  show() {
    const language = pageLanguage();
    const ordered = railOrder(found(this.voices, this.search.value, language), language);
    const shown = this.long.of(ordered, ({ id }) => id === this.picked || id === this.stop);
    const focus = this.list.contains(document.activeElement) ? document.activeElement : null;
    const held = focus?.closest("li").dataset.id; // its row is built again if the voice has changed
    const nodes = shown.map((voice) => this.row(voice));
    const ids = new Set(this.voices.map(({ id }) => id));
    for (const id of this.rows.keys()) if (!ids.has(id)) this.rows.delete(id);
    this.list.replaceChildren(...nodes);
    this.long.shown();
    const same = focus?.isConnected ? focus : this.rows.get(held)?.querySelector(`.${focus.classList[0]}`);
    same?.focus({ preventScroll: true });
    this.find(".rp-rail-none").hidden = shown.length > 0 || !this.arrived; // a voice can be picked before the list has arrived
    this.find(".rp-rail-none").textContent = words(this.voices.length ? "rail.no_match" : "rail.none");
    this.mark();
  }

  row(voice) {
    const { id, name, description, language, favourite, built_in: builtIn } = voice;
    const rendered = JSON.stringify([name, description, language, favourite]);
    const known = this.rows.get(id);
    if (known?.dataset.rendered === rendered) {
      showPortrait(known.querySelector(".rp-portrait"), voice); // its picture may have changed
      return known;
    }
    const facts = [description, languageName(language, pageLanguage())].filter(Boolean);
    const choose = button(
      { class: "rp-rail-pick", onclick: () => this.pick(id), title: facts.join(" · ") },
      create("span", { class: "rp-rail-name", text: name }),
      create("span", { class: "rp-rail-about", text: facts[0] ?? "" }),
    );
    const star = button({ class: "rp-rail-star rp-icon-button", "aria-pressed": favourite, onclick: () => this.favour(id) });
    star.setAttribute("aria-label", words("rail.favourite", { name }));
    star.append(drawing("star"));
    if (builtIn) return this.keep(id, rendered, create("span", { class: "rp-rail-hear" }, portraitOf(voice)), choose, star);
    const hear = button({ class: "rp-rail-hear", "aria-label": words("rail.hear", { name }), onclick: () => this.hear(id) });
    hear.append(portraitOf(voice), drawing("play"), drawing("pause"));
    return this.keep(id, rendered, hear, choose, star);
  }

  keep(id, rendered, ...parts) {
    const node = create("li", { class: "rp-rail-row", "data-id": id, "data-rendered": rendered }, ...parts);
    this.rows.set(id, node);
    return node;
  }

  mark() {
    const playing = window.reprisePlayer?.playing;
    for (const [id, node] of this.rows) {
      const picked = id === this.picked;
      node.toggleAttribute("data-picked", picked);
      node.querySelector(".rp-rail-pick").setAttribute("aria-pressed", picked);
      node.toggleAttribute("data-sounding", playing === soundOf(this.voices.find((voice) => voice.id === id) ?? {}));
    }
    this.rove();
  }

  // The Tab key stops at one voice: the one that had the focus last, else the picked one, else the first.
  rove(id = this.stop) {
    this.stop = id;
    const rows = [...this.list.children];
    const at = [id, this.picked].map((each) => rows.find((row) => row.dataset.id === each)).find(Boolean) ?? rows[0];
    for (const row of rows) for (const each of row.querySelectorAll("button")) each.tabIndex = row === at ? 0 : -1;
  }

  // Arrow keys go from voice to voice, and between the first one and the search.
  move(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || composes(event)) return;
    const rows = [...this.list.children];
    const at = rows.indexOf(event.target.closest("li")) + step;
    if (at === rows.length && this.long.more) this.long.grow();
    const next = this.list.children[at];
    event.preventDefault();
    (next?.querySelector(".rp-rail-pick") ?? this.search).focus();
  }

  // ---- actions

  pick(id, byHand = true) {
    this.picked = id;
    if (this.rows.get(id)?.isConnected) this.mark();
    else this.show();
    if (!byHand) return;
    window.reprise.picking = id;
    this.trigger("pick");
    this.close();
  }

  hear(id) {
    const voice = () => this.voices.find((each) => each.id === id); // none if it is deleted
    const clip = async () => {
      await this.links.ready();
      return voice() && { wav: voice().url };
    };
    const { name } = voice();
    window.reprisePlayer.toggle(soundOf(voice()), clip, { voice: { id, name }, status: words("card.clip_of", { name }) });
  }

  favour(id) {
    const marked = !this.voices.find((each) => each.id === id).favourite;
    this.stop = id; // it is shown at its new place, too
    this.showMark(id, marked);
    this.rows.get(id).querySelector(".rp-rail-star").focus();
    marks.set(id, marked, () => this.trigger("mark", { id, marked }));
  }

  showMark(id, marked) {
    for (const voice of this.voices) if (voice.id === id) voice.favourite = marked;
    this.show();
  }

  // ---- as a sheet

  open(opener) {
    this.opener = opener;
    document.documentElement.toggleAttribute("data-rp-sheet", true);
    this.sheet.setAttribute("role", "dialog");
    this.sheet.setAttribute("aria-modal", "true");
    this.sheet.setAttribute("aria-label", words("rail.title"));
    (this.rows.get(this.picked)?.querySelector(".rp-rail-pick") ?? this.search).focus();
  }

  close() {
    if (!this.opener) return;
    document.documentElement.toggleAttribute("data-rp-sheet", false);
    for (const name of ["role", "aria-modal", "aria-label"]) this.sheet.removeAttribute(name);
    this.opener.focus();
    this.opener = null;
  }

  // Keeps the focus in the sheet, and closes it with Escape.
  key(event) {
    if (!this.opener) return;
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.close();
    } else if (event.key === "Tab") {
      const stops = [...this.sheet.querySelectorAll("button, input")].filter((node) => isShown(node) && node.tabIndex >= 0);
      const edge = event.shiftKey ? stops[0] : stops.at(-1);
      if (document.activeElement !== edge) return;
      event.preventDefault();
      (event.shiftKey ? stops.at(-1) : stops[0]).focus();
    }
  }
}

export function mount(component) {
  const rail = new VoiceRail(component);
  window.repriseRail = { open: (opener) => rail.open(opener) };
}
