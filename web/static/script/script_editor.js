// Scripts: the list, and the open one. Performs what is asked for in the form, in the list and on the cards. The event "bring"
// makes a script of an uploaded file.

import { cardsOfChapters, castOf, characters, isComing, partingPlace, ScriptCopy } from "./cards.js";
import { sent } from "./fields.js";
import { CardPlayback } from "./playback/card_playback.js";
import { ScriptClient } from "./script_client.js";
import { ScriptList } from "./script_list.js";
import { ScriptView } from "./script_view.js";
import { answer, named } from "../draft/deep_links.js";
import { draft } from "../draft/page_draft.js";
import { server } from "../connection/server.js";
import { isShown } from "../ui/elements.js";
import { isLeaving, whenLeaving } from "../connection/leaving.js";
import { mayFocus } from "../ui/keyboard.js";
import { remember, remembered } from "../ui/remember.js";
import { deleteWithUndo, finishDeletions } from "../ui/undo.js";
import { words } from "../ui/words.js";

const OPEN_KEY = "reprise.script";
const EDITS = "script-edits"; // in the draft
// The results of these requests depend on the cards: pending deletions are finished first.
const COUNTING = new Set(["speak", "save", "proof", "move", "merge"]);

class ScriptEditor {
  constructor({ element, props, trigger, upload, watch }) {
    Object.assign(this, { element, trigger });
    this.inUse = false; // whether the user has done something here since this tab was shown, or a new script was opened
    this.client = new ScriptClient((request) => trigger("act", request), this, { present: () => server.present(), last: isLeaving });
    this.view = new ScriptView(element.querySelector(".rp-scripts"), this);
    this.list = new ScriptList(element.querySelector(".rp-script-overview"), this, { accept: props.accept, upload });
    this.playback = new CardPlayback(this);
    this.listening = this.playback.listening;
    this.wire();
    watch("value", () => this.receive(props.value));
    if (props.value?.show) this.receive(props.value); // a script that was created before this tab was first shown
    this.client.pollLater();
  }

  // A ScriptCopy, or null while none is open.
  get script() {
    return this.client.script;
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
    on("hear", "click", () => this.playback.playAll());
    on("stop", "click", () => this.stop());
    on("proof", "click", () => this.proof());
    apart.addEventListener("change", () => this.enter(apart, "paragraphs", { seconds: apart.valueAsNumber || 0 }));
    pace.addEventListener("change", () => this.enter(pace, "speeds", { speed: pace.valueAsNumber || 1 }));
    on("along", "change", () => this.playback.goAlong(this.view.along.checked));
    for (const event of ["click", "keydown"]) this.element.addEventListener(event, () => (this.inUse = true));
    document.addEventListener("reprise:tab", () => (this.inUse = false));
    document.addEventListener("reprise:gone", () => this.client.requests.hold());
    document.addEventListener("reprise:back", () => this.client.requests.again());
  }

  // ---- requests and answers

  receive(value) {
    if (value?.show) this.created(value);
    else this.client.requests.receive(value);
  }

  // Opens a script that was just created, unless the user has opened another one meanwhile.
  async created({ show, message }) {
    if (this.script && this.inUse) return message && this.say(message);
    await this.open(show, message);
    this.inUse = false;
    return this.view.focus();
  }

  // As ScriptClient.ask.
  ask(what, values, how) {
    if (COUNTING.has(what)) finishDeletions(this.view.open);
    return this.client.ask(what, values, how);
  }

  showList() {
    this.list.show(this.client.scripts);
    this.tell();
  }

  // news: the result of the script's `apply`.
  showChanges(news) {
    this.view.show(this.script, news);
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
    else if (!this.client.arrived && id) this.open(id, "", { quiet: true });
    else if (this.script) this.ask("open", {}, { quiet: true });
    else this.ask("list", {}, { quiet: true });
    if (!wanted) answer("script", false);
    this.client.arrived = true;
  }

  get isSeen() {
    return !document.hidden && isShown(this.element);
  }

  // ---- the open script

  // Opens a script. Resolves to whether the server has it.
  async open(id, message = "", { quiet = false } = {}) {
    finishDeletions(this.view.open);
    this.client.script = new ScriptCopy(id);
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
    this.client.pollLater();
    return found;
  }

  // Shows the list. The script's line takes the focus if it was in the script, unless something else has got it meanwhile.
  async close() {
    const { id } = this.script;
    const focused = document.activeElement;
    const held = this.view.open.contains(focused);
    finishDeletions(this.view.open);
    this.client.script = null;
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
    this.client.pollLater();
  }

  stop() {
    this.listening.rest();
    window.reprisePlayer.pause();
    this.ask("stop");
    this.tell();
  }

  // Tells the player, which is on every tab, whether there is anything to stop.
  tell() {
    const active = this.client.running.length > 0 || this.listening.awaited !== null;
    window.reprisePlayer.activity("script", active ? () => this.stopAll() : null);
  }

  async stopAll() {
    this.listening.rest();
    await this.client.stopAll();
    this.refresh();
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
    if (what === "redo" && answer) this.client.pollLater();
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

  // fold: the CardFold that shows them.
  async listTakes(fold) {
    const answer = await this.ask("takes", { card: fold.card.id }, { quiet: true });
    if (answer) fold.showTakes(answer.takes);
  }

  async choose(fold, take) {
    const answer = await this.act("choose", fold.card, { take: take.id });
    if (answer) fold.showTakes(answer.takes);
  }

  // ---- proof-listening

  // Has a recogniser check a card, or all cards. repair: speak them again where words are wrong.
  async proof(card = null, repair = true) {
    const answer = await this.ask("proof", { repair, ...(card ? { card: card.id } : {}) });
    if (answer?.offer) window.repriseRecogniser.offer(() => this.proof(card, repair));
    this.client.pollLater();
  }
}

export function mount(component) {
  const editor = new ScriptEditor(component);
  window.repriseScript = { refresh: () => editor.refresh(), readingNotice: () => editor.list.readingNotice() };
  if (window.repriseScriptMissedRefresh) editor.refresh(); // a change was announced before this component was mounted
}
