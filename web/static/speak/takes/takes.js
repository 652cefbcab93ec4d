// The takes of this session, played by the player. Its value: { takes, gone } or { refused } from web/tabs/speak/take_list.py.
// Its events: `renew_links`, `star`, `erase`, `check`, each with all shown ids; `again`, `seed`; `speak_more` and `stop_speech`,
// with the tickets of takes that are generated in the background.

import { downloadUrl } from "../../shell/download.js";
import { failure } from "../../connection/server.js";
import { answer, copyLink, named } from "../../draft/deep_links.js";
import { voicePicked } from "../begin.js";
import { LinkRefresh } from "../link_refresh.js";
import { marks } from "../../connection/marks.js";
import { Batches, groupOf } from "./batches.js";
import { TakeGroup } from "./take_group.js";
import { TakeList } from "./take_list.js";
import { TakeRow } from "./take_row.js";
import { isShown } from "../../ui/elements.js";
import { randomName } from "../../connection/random.js";
import { atLoudness } from "../../sound/loudness.js";
import { deleteWithUndo, deletionFailed, finishDeletions } from "../../ui/undo.js";
import { words } from "../../ui/words.js";

const ASK_AGAIN = 2_000; // ms until a take that the server may not have stored yet is asked for again

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
    marks.connect(() => this.show());
    this.soon = null;
    this.checking = null; // the take that is being checked: { id, repair, ticket, attempt }
    this.batches = new Batches(trigger, voicePicked);
    const switchTo = (id, ids) => window.reprisePlayer.switchTo(this.source(id), ids);
    this.group = new TakeGroup(this.find(".rp-group"), { switchTo, keep: (...takes) => this.keepOne(...takes) });
    document.addEventListener("reprise:begun", ({ detail }) => this.begun(detail));
    this.find(".rp-switch").onclick = () => this.compare();
    document.addEventListener("reprise:spoken", ({ detail }) => this.spoken(detail));
    document.addEventListener("reprise:broken", ({ detail: { id, ms, stalls } }) => this.list.expect(id, ms, stalls, this.batches.group));
    document.addEventListener("reprise:heard", ({ detail }) => this.list.heard(detail.id, detail.ms));
    document.addEventListener("reprise:stalled", ({ detail }) => this.list.stalled(detail.id, detail.stalls));
    for (const event of ["playing", "stopped"]) document.addEventListener(`reprise:${event}`, () => this.show());
    watch("value", () => this.answered());
    if (named("take")) this.list.add(named("take"));
    else answer("take", false);
    if (this.list.ids.length) this.refresh();
  }

  // Debounced: several calls in a moment make one request.
  refresh() {
    if (!this.list.ids.length) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.trigger("renew_links", { ids: this.list.ids }), 100);
  }

  spoken({ id, ms, stalls }) {
    this.list.add(id, ms, stalls, this.batches.group);
    this.refresh();
  }

  answered() {
    if (!this.props.value) return;
    if (this.props.value.added) {
      this.joined(this.props.value);
      return;
    }
    if (this.props.value.refused !== undefined) deletionFailed(this.rows.get(this.props.value.refused)?.node);
    if (this.props.value.proof) this.checked(this.props.value.proof);
    if (!this.props.value.takes) {
      this.show();
      return;
    }
    const wanted = named("take");
    this.list.answer(this.props.value);
    this.links.arrived();
    this.show();
    if (this.list.waits) setTimeout(() => this.refresh(), ASK_AGAIN);
    if (!wanted) return;
    answer("take", this.rows.has(wanted));
    this.rows.get(wanted)?.node.scrollIntoView({ block: "nearest" });
    if (document.activeElement === document.body) this.rows.get(wanted)?.play.focus({ preventScroll: true });
  }

  // ---- several takes at once

  // Called when Speak begins a take: requests the further takes of its text.
  begun({ ticket }) {
    const more = Number(document.querySelector(".rp-at-once")?.value ?? 1) - 1;
    this.batches.begun(ticket, this.repeating ? 0 : more);
  }

  joined({ added, tickets, problem, over }) {
    const { own } = this.list;
    const group = groupOf(tickets[0]);
    for (const id of added) if (!own.some((take) => take.id === id)) this.list.add(id, null, null, group);
    if (over) this.batches.end(group);
    this.message = problem;
    this.refresh();
  }

  // Called when an event of further takes failed.
  endBatches() {
    this.batches.failed();
    this.message = words(failure());
    this.refresh();
  }

  // Deletes the other takes of a group.
  keepOne(id, others) {
    for (const each of [id, ...others]) this.list.ungroup(each);
    for (const other of others) this.erase(other, { focus: false });
    this.show();
    this.rows.get(id)?.node.querySelector("button").focus();
  }

  // ---- proof-listening

  // Has a recogniser check a take. repair: speak it again where words are wrong.
  check(id, repair) {
    if (this.checking) return;
    const ticket = randomName();
    this.checking = { id, repair, ticket, attempt: 0 };
    this.message = "";
    this.trigger("check", { ids: this.list.ids, id, repair, ticket });
    window.reprisePlayer.activity("proof", () => this.trigger("stop_speech", { tickets: [ticket] }));
    this.show();
  }

  checked({ ticket, attempt, over, offer, added, message }) {
    if (this.checking?.ticket !== ticket) return; // Gradio repeats the last message when the event is over
    const { id, repair } = this.checking;
    if (!over) {
      this.checking.attempt = attempt;
      return;
    }
    this.endCheck();
    if (offer) window.repriseRecogniser.offer(() => this.check(id, repair));
    if (added) this.list.add(added);
    this.message = message ?? "";
  }

  endCheck() {
    this.checking = null;
    window.reprisePlayer.activity("proof", null);
    this.show();
  }

  // ---- controls

  act(what, id, detail) {
    if (what === "star") this.star(id, !detail.starred);
    else if (what === "delete") this.erase(id);
    else if (what === "seed") this.trigger("seed", { seed: detail.seed });
    else if (what === "same" || what === "another") this.again(id, what);
    else if (what === "compare") this.choose(id);
    else if (what === "save") this.save(id, detail);
    else if (what === "check" || what === "repair") this.check(id, what === "repair");
    else if (what === "link") copyLink("take", id);
    else this.play(id);
  }

  star(id, starred) {
    marks.set(id, starred, () => this.trigger("star", { ids: this.list.ids, id, starred }));
    this.show();
  }

  play(id) {
    return window.reprisePlayer.toggle(...this.source(id));
  }

  // A take as the player loads it, which waits for links.
  source(id) {
    const about = () => this.list.known.get(id)?.facts; // none if it is deleted
    const wav = async () => {
      await this.links.ready();
      return about() && { wav: about().links.wav, facts: about() };
    };
    return [id, wav, about()];
  }

  again(id, what) {
    if (!window.reprisePlayer.mayBegin(() => this.again(id, what))) return;
    this.repeating = true; // one more take, not several
    this.trigger("again", { id, same: what === "same", ticket: window.reprisePlayer.begin() });
    window.reprisePlayer.sent();
    this.repeating = false;
  }

  choose(id) {
    if (this.list.choose(id).length === 2) this.compare();
    this.show();
  }

  async compare() {
    const { chosen } = this.list;
    if (chosen.length === 2) await window.reprisePlayer.compare(...chosen.map((id) => this.source(id)));
    this.show();
  }

  async save(id, format) {
    await this.links.ready();
    const take = this.list.known.get(id);
    if (take) downloadUrl(atLoudness(take.links[format]));
  }

  erase(id, options) {
    window.reprisePlayer.forget(id);
    deleteWithUndo(this.rows.get(id).node, () => this.trigger("erase", { ids: this.list.ids, id }), options);
  }

  // ---- display

  show() {
    const { rows } = this.list;
    this.find(".rp-takes").toggleAttribute("data-some", rows.length > 0);
    this.find(".rp-takes-none").hidden = rows.length > 0;
    this.showCompared();
    this.group.show(this.list.group, window.reprisePlayer?.playing);
    const held = [...this.find(".rp-take-rows").children].findIndex((node) => node.contains(document.activeElement));
    for (const id of [...this.rows.keys()]) if (!rows.some((take) => take.id === id)) this.drop(id);
    rows.forEach((take, place) => this.showRow(take, place));
    if (held >= 0 && document.activeElement === document.body) this.focusNear(held);
  }

  // Focuses what is at the place of a removed take.
  focusNear(place) {
    const left = this.find(".rp-take-rows").children;
    const buttons = left[Math.min(place, left.length - 1)]?.querySelectorAll("button") ?? [];
    ([...buttons].find(isShown) ?? this.find(".rp-takes-none")).focus(); // of a deleted take, Undo is shown
  }

  showRow(take, place) {
    const row = this.rows.get(take.id) ?? this.newRow(take.id, place);
    const playing = window.reprisePlayer?.playing === take.id;
    row.show({ ...take, starred: marks.of(take.id, take.starred) }, { playing, compared: this.list.chosen.includes(take.id), checking: this.checking });
    const there = this.find(".rp-take-rows").children[place];
    if (there !== row.node) this.find(".rp-take-rows").insertBefore(row.node, there ?? null);
  }

  // The latest take is unfolded; the others are folded, except the one where the keyboard is used.
  newRow(id, place) {
    const row = new TakeRow(id, (...pressed) => this.act(...pressed));
    if (place === 0) {
      this.rows.forEach(({ details }) => (details.open &&= details.querySelector(":focus-visible") !== null));
      row.details.open = true;
    }
    this.rows.set(id, row);
    return row;
  }

  drop(id) {
    finishDeletions(this.rows.get(id).node);
    this.rows.get(id).node.remove();
    this.rows.delete(id);
  }

  showCompared() {
    const { chosen } = this.list;
    this.find(".rp-switch").hidden = chosen.length < 2;
    this.find(".rp-takes-say").textContent = chosen.length === 1 ? words("takes.compare_one") : (this.message ?? "");
  }
}

export function mount(component) {
  const takes = new Takes(component);
  window.repriseTakes = {
    refresh: () => takes.refresh(),
    endCheck: () => takes.endCheck(),
    endBatches: () => takes.endBatches(),
  };
}
