// The takes of this session. Its value: { takes, gone } as web/tabs/speak/take_list.py answers; its events, each with all
// ids that are shown: `fresh`, `star`, `erase`; and `again`, `seed`. Played by the player.

import { LinkRefresh } from "./link_refresh.js";
import { TakeList } from "./take_list.js";
import { TakeRow } from "./take_row.js";
import { create } from "../ui/elements.js";
import { words } from "../ui/words.js";

function session() {
  try {
    return sessionStorage;
  } catch {
    return { getItem: () => null, setItem: () => {} };
  }
}

class Takes {
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { props, trigger });
    this.find = (selector) => element.querySelector(selector);
    this.list = new TakeList(session());
    this.rows = new Map(); // by id
    this.links = new LinkRefresh(() => this.refresh());
    this.soon = null;
    this.find(".rp-switch").onclick = () => this.compare();
    document.addEventListener("reprise:spoken", ({ detail }) => this.spoken(detail));
    document.addEventListener("reprise:heard", ({ detail }) => this.list.heard(detail.id, detail.ms));
    document.addEventListener("reprise:stalled", ({ detail }) => this.list.stalled(detail.id, detail.stalls));
    for (const told of ["playing", "stopped"]) document.addEventListener(`reprise:${told}`, () => this.show());
    watch("value", () => this.answered());
    if (this.list.ids.length) this.refresh();
  }

  // Debounced: several calls in a moment make one request.
  refresh() {
    if (!this.list.ids.length) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.trigger("fresh", { ids: this.list.ids }), 100);
  }

  spoken({ id, ms, stalls }) {
    this.list.add(id, ms, stalls);
    this.refresh();
  }

  answered() {
    if (!this.props.value) return;
    this.list.answer(this.props.value);
    this.links.arrived();
    this.show();
  }

  // ---- controls

  act(what, id, detail) {
    const { ids } = this.list;
    if (what === "star") this.trigger("star", { ids, id, starred: !detail.starred });
    else if (what === "delete") this.erase(id);
    else if (what === "seed") this.trigger("seed", { seed: detail.seed });
    else if (what === "same" || what === "another") this.again(id, what);
    else if (what === "compare") this.choose(id);
    else if (what === "save") this.save(id, detail);
    else this.play(id);
  }

  async play(id) {
    await this.links.ready();
    await window.reprisePlayer.toggle(...this.source(id));
  }

  source(id) {
    const { facts } = this.list.known.get(id);
    return [id, facts.links.wav, facts];
  }

  again(id, what) {
    if (document.documentElement.hasAttribute("data-rp-busy")) return;
    this.trigger("again", { id, same: what === "same", ticket: window.reprisePlayer.begin() });
  }

  choose(id) {
    if (this.list.choose(id).length === 2) this.compare();
    this.show();
  }

  async compare() {
    await this.links.ready();
    await window.reprisePlayer.compare(...this.list.chosen.map((id) => this.source(id)));
    this.show();
  }

  async save(id, format) {
    await this.links.ready();
    create("a", { href: this.list.known.get(id).links[format], download: "" }).click(); // the server names it
  }

  erase(id) {
    const next = this.rows.get(id).node.nextElementSibling ?? this.rows.get(id).node.previousElementSibling;
    next?.querySelector("button")?.focus();
    window.reprisePlayer.forget(id);
    this.trigger("erase", { ids: this.list.ids, id });
  }

  // ---- display

  show() {
    const { rows } = this.list;
    this.find(".rp-takes").toggleAttribute("data-some", rows.length > 0);
    this.find(".rp-takes-none").hidden = rows.length > 0;
    this.showCompared();
    for (const id of [...this.rows.keys()]) if (!rows.some((take) => take.id === id)) this.drop(id);
    rows.forEach((take, place) => this.showRow(take, place));
  }

  showRow(take, place) {
    const row = this.rows.get(take.id) ?? this.newRow(take.id, place);
    const playing = window.reprisePlayer?.playing === take.id;
    row.show(take, { playing, compared: this.list.chosen.includes(take.id) });
    const there = this.find(".rp-take-rows").children[place];
    if (there !== row.node) this.find(".rp-take-rows").insertBefore(row.node, there ?? null);
  }

  // The latest take is unfolded; the others are folded.
  newRow(id, place) {
    const row = new TakeRow(id, (...pressed) => this.act(...pressed));
    if (place === 0) {
      this.rows.forEach(({ details }) => (details.open = false));
      row.details.open = true;
    }
    this.rows.set(id, row);
    return row;
  }

  drop(id) {
    this.rows.get(id).node.remove();
    this.rows.delete(id);
  }

  showCompared() {
    const { chosen } = this.list;
    this.find(".rp-switch").hidden = chosen.length < 2;
    this.find(".rp-takes-say").textContent = chosen.length === 1 ? words("takes.compare_one") : "";
  }
}

export function mount(component) {
  const takes = new Takes(component);
  window.repriseTakes = { refresh: () => takes.refresh() };
}
