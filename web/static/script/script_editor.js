// Scripts: the list, and the open one. Every request to the server goes through one RequestQueue as the event "act", and
// its answer is the new value; see web/tabs/script/handlers.py. The server speaks the cards whether or not this page is
// open; the page polls the progress.

import { cardsOfChapters, castOf, characters, isComing, partingPlace, ScriptCopy } from "./cards.js";
import { ContinuousPlayback } from "./continuous_playback.js";
import { sent } from "./fields.js";
import { RequestQueue } from "./request_queue.js";
import { ScriptList } from "./script_list.js";
import { ScriptView } from "./script_view.js";
import { answer, named } from "../draft/deep_links.js";
import { draft } from "../draft/page_draft.js";
import { downloadUrl } from "../shell/download.js";
import { server } from "../connection/server.js";
import { button, create, isShown } from "../ui/elements.js";
import { fetchedWav } from "../sound/fetched_wav.js";
import { SCRIPT_FORMATS, SOUND_FORMATS } from "../sound/formats.js";
import { isLeaving, whenLeaving } from "../connection/leaving.js";
import { atLoudness, loudnessChoice } from "../sound/loudness.js";
import { mayFocus } from "../ui/keyboard.js";
import { closeMenu } from "../ui/menus.js";
import { remember, remembered } from "../ui/remember.js";
import { deleteWithUndo, finishDeletions } from "../ui/undo.js";
import { words } from "../ui/words.js";

const PAGE = Math.random().toString(36).slice(2); // with a request's number, identifies the request: sent twice, it is performed once
const OPEN_KEY = "reprise.script";
const ALONG_KEY = "reprise.along";
const EDITS = "script-edits"; // in the draft
const QUICK = 1_000; // ms between polls while the script is being spoken
const SLOW = 15_000; // while nothing happens here: another page may change it
const LIST = 5_000; // while any script of the list is being spoken
// The results of these requests depend on the cards: pending deletions are finished first.
const COUNTING = new Set(["speak", "save", "proof", "move", "merge"]);
const SHARE = 10; // polling takes at most 1/SHARE of the time

class ScriptEditor {
  constructor({ element, props, trigger, watch }) {
    this.element = element;
    this.script = null;
    this.arrived = false;
    this.inUse = false; // whether the user has done something here since this tab was shown, or a new script was opened
    const about = { present: () => server.present(), last: isLeaving };
    this.requests = new RequestQueue((question) => trigger("act", { ...question, page: PAGE }), about);
    document.addEventListener("reprise:gone", () => this.requests.hold());
    document.addEventListener("reprise:back", () => this.requests.again());
    this.view = new ScriptView(element.querySelector(".rp-scripts"), this);
    this.list = new ScriptList(element.querySelector(".rp-script-overview"), this, props.accept);
    this.listening = new ContinuousPlayback({
      script: () => this.script,
      isDeleted: ({ id }) => this.view.isDeleted(id),
      play: (card) => this.play(card),
      ready: (card) => this.fetched(card),
    });
    this.ready = { of: null, sound: null }; // the sound of the next card
    this.wire();
    watch("value", () => this.receive(props.value));
    if (props.value?.show) this.receive(props.value); // a script that was created before this tab was first shown
    this.later();
  }

  wire() {
    const on = (name, event, heard) => this.element.querySelector(`.rp-script-${name}`).addEventListener(event, heard);
    on("back", "click", () => {
      if (!this.lost) this.say(""); // it is about the script
      this.close();
    });
    whenLeaving(() => {
      this.view.writeFocused();
      this.keepEdits();
    });
    const { apart, author, name, pace } = this.view;
    name.addEventListener("change", () => this.enter(name, "rename", { id: this.script?.id, name: name.value }));
    author.addEventListener("change", () => this.enter(author, "author", { name: author.value }));
    on("speak", "click", () => this.speak());
    on("hear", "click", () => this.hearAll());
    on("stop", "click", () => this.stop());
    on("proof", "click", () => this.proof());
    this.view.along.checked = this.listening.on = remembered(ALONG_KEY) !== "no";
    apart.addEventListener("change", () => this.enter(apart, "paragraphs", { seconds: apart.valueAsNumber || 0 }));
    pace.addEventListener("change", () => this.enter(pace, "speeds", { speed: pace.valueAsNumber || 1 }));
    on("along", "change", () => this.goAlong(this.view.along.checked));
    const formats = Object.entries({ ...SCRIPT_FORMATS, m4b: words("script.audio_book") }).map(([format, text]) =>
      button({ class: `rp-script-save-${format}`, text, onclick: () => this.save(format) }),
    );
    const zips = Object.entries(SOUND_FORMATS).map(([format, text]) => {
      const label = words("script.zip_as", { format: text });
      return button({ text, "aria-label": label, onclick: () => this.save(`${format}.zip`) });
    });
    const zip = create("p", { class: "rp-script-zip", text: words("script.zip") });
    // First what goes into the files: the buttons download them at once.
    this.element.querySelector(".rp-script-formats").append(this.view.cover.node, loudnessChoice(), ...formats, zip, ...zips);
    for (const event of ["click", "keydown"]) this.element.addEventListener(event, () => (this.inUse = true));
    document.addEventListener("reprise:tab", () => (this.inUse = false));
    document.addEventListener("reprise:recording", () => {
      this.listening.rest();
      this.tell();
    });
    document.addEventListener("reprise:playing", ({ detail }) => {
      this.view.sounds(detail.id);
      this.listening.sounds(detail.id);
      this.tell();
    });
    document.addEventListener("reprise:stopped", ({ detail }) => {
      this.view.sounds(null);
      this.listening.stopped(detail.id, detail.reason);
      this.tell();
    });
  }

  // ---- requests and answers

  receive(value) {
    if (value?.show) this.created(value);
    else this.requests.receive(value);
  }

  // Opens a script that was just created, unless the user has opened another one meanwhile.
  async created({ show, message }) {
    if (this.script && this.inUse) return message && this.say(message);
    await this.open(show, message);
    this.inUse = false;
    return this.view.focus();
  }

  // quiet: not caused by the user, so the message stays.
  async ask(what, values = {}, { quiet = false } = {}) {
    if (COUNTING.has(what)) finishDeletions(this.view.open);
    const about = this.script;
    const answer = await this.requests.ask(() => {
      return { do: what, script: about?.id ?? "", version: about?.version ?? "", values };
    });
    if (!answer) {
      this.say(words("script.lost"), "bad");
      return null;
    }
    if (this.lost) this.say("");
    if (answer.scripts) {
      this.list.show(answer.scripts);
      this.tell();
    }
    if (about && about === this.script) this.follow(answer);
    if (answer.problem) this.say(answer.problem, "bad");
    else if (answer.message || !quiet) this.say(answer.message ?? "");
    return answer.problem ? null : answer;
  }

  follow({ state, voices, gone }) {
    const { script } = this;
    if (gone) {
      this.close();
      if (script.head) this.say(words("script.discarded", { name: script.head.name })); // by another page
      return;
    }
    if (voices) this.view.offer(voices, script);
    if (!state) return;
    const news = script.apply(state);
    if (!news) {
      script.version = "";
      this.ask("open", {}, { quiet: true });
      return;
    }
    this.view.show(script, news);
    this.listening.look();
    this.tell();
  }

  say(text, kind = "good") {
    this.lost = text === words("script.lost");
    for (const line of this.element.querySelectorAll(".rp-script-message")) {
      line.hidden = !text;
      line.className = `rp-script-message rp-notice rp-${kind}`;
      line.setAttribute("role", kind === "bad" ? "alert" : "status");
      line.textContent = text;
    }
  }

  // Fetches the current state. First called when the owner's key is known.
  refresh() {
    const wanted = named("script");
    const id = wanted ?? remembered(OPEN_KEY);
    if (wanted) this.open(wanted, "", { quiet: true }).then((found) => answer("script", found));
    else if (!this.arrived && id) this.open(id, "", { quiet: true });
    else if (this.script) this.ask("open", {}, { quiet: true });
    else this.ask("list", {}, { quiet: true });
    if (!wanted) answer("script", false);
    this.arrived = true;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), this.interval());
  }

  interval() {
    if (this.lost) return SLOW;
    if (this.script?.head?.running || this.script?.head?.proof) return Math.min(SLOW, Math.max(QUICK, SHARE * (this.took ?? 0)));
    return !this.script && this.list.scripts.some(({ running }) => running) ? LIST : SLOW;
  }

  async look() {
    const seen = !document.hidden && isShown(this.element);
    if (this.script ? seen || this.script.head?.running : seen && this.arrived) {
      await this.ask(this.script ? "poll" : "list", {}, { quiet: true });
      this.took = this.requests.took;
    }
    this.later();
  }

  // ---- the open script

  // Opens a script. Resolves to whether the server has it.
  async open(id, message = "", { quiet = false } = {}) {
    finishDeletions(this.view.open);
    this.script = new ScriptCopy(id);
    this.listening.rest();
    this.view.clear();
    remember(OPEN_KEY, id);
    const answer = await this.ask("open");
    const found = Boolean(answer) && !answer.gone;
    if (this.script?.id !== id) return found;
    this.saveKept();
    if (quiet && !answer) this.say(""); // it was discarded elsewhere
    else if (message) this.say(message);
    this.view.cast.open = castOf(this.script?.list ?? []).length > 1 && !this.script.head.done; // casting is the first thing to do
    this.turn();
    this.later();
    return found;
  }

  // Shows the list. The script's line takes the focus if it was in the script, unless something else has got it meanwhile.
  async close() {
    const { id } = this.script;
    const focused = document.activeElement;
    const held = this.view.open.contains(focused);
    finishDeletions(this.view.open);
    this.script = null;
    this.listening.rest();
    remember(OPEN_KEY, null);
    this.turn();
    await this.ask("list", {}, { quiet: true });
    if (held && !this.script && [focused, document.body].includes(document.activeElement)) this.list.focus(id);
  }

  // Shows the open script or the list. The open script takes the focus if it was in what is hidden now.
  turn() {
    const held = document.activeElement;
    document.documentElement.toggleAttribute("data-rp-script", this.script !== null);
    this.view.open.hidden = this.script === null;
    this.list.root.hidden = this.script !== null;
    if (this.script && !isShown(held)) this.view.focus();
  }

  // Asks for a change of the open script with the value of a field, which may lose the focus because the script is gone.
  enter(field, what, values) {
    if (this.script) sent(field, this.ask(what, values), () => this.script?.head && this.view.showHead(this.script));
  }

  // Deletes the chapters that begin with cards of these ids.
  removeChapters(ids) {
    const { script, view } = this;
    finishDeletions(view.open);
    const also = cardsOfChapters(script.list, ids).map(({ id }) => view.views.get(id).node);
    // The list of chapters stays: it is shown again when the server has answered.
    deleteWithUndo(view.chapters.node, () => this.ask("remove_chapters", { chapters: ids }).then(() => false), { also });
  }

  // ---- speaking

  async speak(card = null) {
    const { script, listening } = this;
    if (listening.on) window.reprisePlayer.wake(); // in the user gesture
    const mayBegin = listening.plan();
    const answer = await this.ask("speak", card ? { card: card.id } : {});
    if (!answer || script !== this.script || !script.head.running) return;
    const from = card ? script.order.indexOf(card.id) : 0;
    const first = script.list.slice(from).find(isComing);
    if (first && mayBegin()) listening.begin(card ? card.id : first.id);
    this.later();
  }

  stop() {
    this.listening.rest();
    window.reprisePlayer.pause();
    this.ask("stop");
    this.tell();
  }

  // Ids of the scripts that are being spoken, as far as this page knows.
  get running() {
    const open = this.script?.head?.running ? [this.script.id] : [];
    return [...open, ...this.list.scripts.filter(({ id, running }) => running && id !== this.script?.id).map(({ id }) => id)];
  }

  // Tells the player, which is on every tab, whether there is anything to stop.
  tell() {
    const active = this.running.length > 0 || this.listening.awaited !== null;
    window.reprisePlayer.activity("script", active ? () => this.stopAll() : null);
  }

  async stopAll() {
    const { running } = this;
    this.listening.rest();
    for (const id of running) await this.requests.ask(() => ({ do: "stop", script: id, version: "", values: {} }));
    this.refresh();
  }

  goAlong(on) {
    this.listening.on = on;
    remember(ALONG_KEY, on ? "yes" : "no");
    if (!on) this.listening.rest();
  }

  cast(speaker, voice) {
    this.ask("cast", { speaker, voice });
  }

  // ---- cards

  // Keeps what the server has not stored, by the id of the card or script: it may be gone, or refuse this page.
  keepEdits() {
    const { script, view } = this;
    const edits = { ...view.edits, ...(script?.head && { [script.id]: view.headEdits }) };
    const others = Object.entries(draft.values[EDITS] ?? {}).filter(([id]) => !(id in edits) && !view.views.has(id));
    draft.keep({ [EDITS]: { ...Object.fromEntries(others), ...edits } });
  }

  // Saves what was kept when the page was left, unless the server's has changed since.
  saveKept() {
    if (!this.script.head) return;
    const { [this.script.id]: head = {}, ...kept } = draft.values[EDITS] ?? {};
    this.view.enterAgain(head);
    for (const card of this.script.list) {
      const { text, stored } = kept[card.id] ?? {};
      delete kept[card.id];
      if (stored === card.text) this.act("edit", card, { text });
    }
    draft.keep({ [EDITS]: kept });
  }

  async act(what, card, values = {}) {
    if (what === "redo" && this.listening.on) window.reprisePlayer.wake();
    const answer = await this.ask(what, { card: card.id, ...values });
    if (what === "redo" && answer) this.later();
    return answer;
  }

  move(card, step) {
    const { present } = this.view;
    const position = present.findIndex((node) => node.view.card === card) + step;
    if (position >= 0 && position < present.length) this.act("move", card, { position });
  }

  async insert(card) {
    const answer = await this.act("insert", card, { text: words("script.new_text") });
    if (answer && mayFocus()) this.view.write(answer.card);
  }

  // text: of the field, which was saved when it lost the focus, trimmed. caret: the place in it.
  async split(card, text, caret) {
    const at = partingPlace(text, caret);
    await this.act("split", card, { at: characters(text.slice(0, at)) });
  }

  async listTakes(view) {
    const answer = await this.ask("takes", { card: view.card.id }, { quiet: true });
    if (answer) view.showTakes(answer.takes);
  }

  async choose(view, take) {
    const answer = await this.act("choose", view.card, { take: take.id });
    if (answer) view.showTakes(answer.takes);
  }

  // ---- proof-listening

  // Has a recogniser check a card, or all cards. repair: speak them again where words are wrong.
  async proof(card = null, repair = true) {
    const answer = await this.ask("proof", { repair, ...(card ? { card: card.id } : {}) });
    if (answer?.offer) window.repriseRecogniser.offer(() => this.proof(card, repair));
    this.later();
  }

  // ---- listening

  hear(card) {
    window.reprisePlayer.wake();
    if (window.reprisePlayer.playing === card.sound) return window.reprisePlayer.pause();
    this.listening.playing(card);
    return this.play(card);
  }

  // Plays all cards from the beginning.
  hearAll() {
    window.reprisePlayer.wake();
    this.view.along.checked = true;
    this.goAlong(true);
    this.listening.begin(this.script.order[0]);
  }

  hearTake(card, take) {
    const source = async () => {
      const answer = await this.ask("listen", { card: card.id, take: take.id }, { quiet: true });
      return answer ? { wav: answer.url, facts: answer.facts } : undefined; // `ask` has told why
    };
    window.reprisePlayer.toggle(take.sound, source);
  }

  // Plays a card's sound, unless another one is wanted by then. The player says why a sound cannot be played.
  async play(card) {
    const { heard } = this.listening;
    const { wav, facts } = (await this.fetched(card)) ?? {};
    if (heard !== this.listening.heard) return;
    this.view.bringUp(card.id);
    const played = wav && (await window.reprisePlayer.play(card.sound, wav, facts));
    if (!played && heard === this.listening.heard) this.listening.rest();
  }

  // The sound of a card. The last one is kept, since it is requested in advance and again when it plays.
  fetched(card) {
    if (this.ready.of !== card.sound) this.ready = { of: card.sound, sound: this.fetchedNow(card) };
    return this.ready.sound;
  }

  // Resolves to { wav: a promise, facts }, or to null if the server did not give its address.
  async fetchedNow({ id, take, sound }) {
    const forget = () => this.ready.of === sound && (this.ready = { of: null, sound: null });
    const answer = await this.ask("listen", { card: id, take }, { quiet: true });
    const wav = answer && fetchedWav(answer.url);
    if (wav) wav.catch(forget);
    else forget();
    return wav && { wav, facts: answer.facts };
  }

  // ---- export

  async save(format) {
    closeMenu(this.view.saving);
    const answer = await this.ask("save", { format });
    if (answer) downloadUrl(atLoudness(answer.url));
  }
}

export function mount(component) {
  const editor = new ScriptEditor(component);
  window.repriseScript = { refresh: () => editor.refresh() };
  if (window.repriseScriptMissedRefresh) editor.refresh(); // a change was announced before this component was mounted
}
