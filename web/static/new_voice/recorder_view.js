// The recorder's display and controls.

import { obstacle } from "./capture/microphone.js";
import { onMeter } from "./capture/recording.js";
import { guardLeaving } from "../connection/leaving.js";
import { button, create, isShown } from "../ui/elements.js";
import { decimals, percent, secondsOf } from "../ui/format.js";
import { composes, mayFocus } from "../ui/keyboard.js";
import { pageLanguage, words } from "../ui/words.js";

const OPEN = ["counting", "recording"]; // the states in which the microphone is open
const PASSING = ["recording", "uploading"]; // the states in which there is sound that is not yet a clip
const TOLD = ["uploading", "ready", "refused"]; // the states whose message is brought into view: it may be above the window

export class RecorderView {
  constructor(element, recorder) {
    Object.assign(this, { element, recorder });
    this.find = (selector) => element.querySelector(selector);
    this.obstacle = obstacle(window);
    this.frame = null;
    this.folded = false; // whether the page, not the user, has folded the text to read
    this.waiting = null; // the button that had the focus when it was disabled
    this.find(".rp-record").onclick = () => recorder.press();
    this.find(".rp-choose").onclick = () => this.find(".rp-file").click();
    this.find(".rp-file").onchange = ({ target }) => {
      recorder.addFiles([...target.files]);
      target.value = ""; // the same file may be chosen again
    };
    this.find(".rp-script-other").onclick = () => this.showScript(this.scriptAt + 1);
    this.showScript(0);
    this.acceptDrops(this.find(".rp-clip"));
    document.addEventListener("keydown", (event) => this.escape(event));
    guardLeaving(() => this.unsaved);
    document.documentElement.style.setProperty("--rp-recording", JSON.stringify(words("clip.on_air")));
  }

  // Escape does what the button does, so nothing is lost. Other tabs use the key themselves.
  escape(event) {
    if (event.key !== "Escape" || composes(event) || !isShown(this.find(".rp-clip"))) return;
    if (this.recorder.capture) this.recorder.press();
  }

  acceptDrops(area) {
    const over = (on) => (event) => {
      event.preventDefault();
      area.classList.toggle("rp-over", on);
    };
    area.ondragover = over(true);
    area.ondragleave = over(false);
    area.ondrop = (event) => {
      over(false)(event);
      this.recorder.addFiles([...event.dataTransfer.files]);
    };
  }

  // Whether there are clips, or sound that becomes one.
  get unsaved() {
    return !this.recorder.clips.empty || PASSING.includes(this.find(".rp-clip").dataset.state);
  }

  // The text to read aloud; "" while it is folded.
  get script() {
    const script = this.find(".rp-script");
    return script.open && !script.hidden ? this.find(".rp-script-text").textContent : "";
  }

  foldScript() {
    const script = this.find(".rp-script");
    this.folded ||= script.open;
    script.open = false;
  }

  unfoldScript() {
    if (this.folded) this.find(".rp-script").open = true;
    this.folded = false;
  }

  // Shows the text to read at this place in the list, which begins again after its end.
  showScript(place) {
    const { scripts } = this.recorder.props;
    this.scriptAt = place % scripts.length;
    this.find(".rp-script").hidden = !scripts.length;
    this.find(".rp-script-text").textContent = scripts[this.scriptAt] ?? "";
    this.find(".rp-script-other").hidden = scripts.length < 2;
  }

  // Shows a message, except while the microphone is open: then only the recording does, with `showState`.
  say(...message) {
    if (!this.recorder.capture) this.showState(...message);
  }

  // share: of a file, which the browser has sent.
  sending(share) {
    const sent = share < 1 ? percent(share, pageLanguage()) : "";
    this.say(`${words("clip.uploading")} ${sent}`, "uploading", "off");
  }

  invite() {
    this.say(this.obstacle || words("clip.invitation"), this.obstacle ? "refused" : "empty");
  }

  refuse(text) {
    this.say(text, "refused");
    return text;
  }

  // live: "off" for running figures, which screen readers skip.
  showState(text, state, live = state === "recording" ? "off" : "polite") {
    const line = this.find(".rp-say");
    line.textContent = text;
    line.setAttribute("aria-live", live);
    this.find(".rp-clip").dataset.state = state;
    this.find(".rp-countdown").textContent = "";
    document.documentElement.toggleAttribute("data-rp-recording", OPEN.includes(state)); // shown on every tab
    this.showButtons();
    const isCalm = state === "refused" || mayFocus(); // nobody is taken from the field that they write in, but by a failure
    if (TOLD.includes(state) && live === "polite" && isCalm) line.scrollIntoView({ block: "nearest" });
  }

  // sending: the AbortController of the file that is being uploaded; null for none.
  offerCancel(sending) {
    const cancel = this.find(".rp-send-cancel");
    cancel.hidden = !sending;
    cancel.onclick = () => {
      this.waiting ??= this.find(".rp-choose"); // the focus must not stay on a hidden button
      cancel.blur();
      sending.abort();
    };
  }

  showButtons() {
    const { state } = this.find(".rp-clip").dataset;
    const focused = document.activeElement;
    const waits = ["asking", "uploading"].includes(state);
    this.find(".rp-record-label").textContent = this.label(state);
    for (const button of this.element.querySelectorAll(".rp-record, .rp-again")) {
      button.disabled = waits || Boolean(this.obstacle);
    }
    this.find(".rp-choose").disabled = waits || OPEN.includes(state);
    if (focused.disabled && this.element.contains(focused)) this.waiting = focused;
    else if (this.waiting && !this.waiting.disabled) this.returnFocus();
  }

  // Does nothing if something else has the focus: a browser takes it from disabled buttons.
  returnFocus() {
    if (document.activeElement === document.body) this.waiting.focus();
    this.waiting = null;
  }

  label(state) {
    if (state === "recording") return words("clip.stop");
    if (state === "counting") return words("clip.cancel");
    return words(this.recorder.clips.list.length ? "clip.record_more" : "clip.record");
  }

  count(left) {
    this.showState(words("clip.counting", { left }), "counting");
    this.find(".rp-countdown").textContent = left;
    this.find(".rp-clip").scrollIntoView({ block: "nearest" });
    if (document.activeElement === document.body) this.find(".rp-record").focus(); // the focused element was hidden
  }

  refresh() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.recorder.capture) this.showLevel(this.recorder.capture);
    });
  }

  showLevel({ meter, recording }) {
    this.find(".rp-level").style.width = `${onMeter(meter.level) * 100}%`;
    this.find(".rp-peak").style.left = `${onMeter(meter.held) * 100}%`;
    this.find(".rp-lamp").dataset.lit = meter.clipping;
    const level = meter.level.toFixed(0);
    this.find(".rp-meter").setAttribute("aria-valuenow", level);
    const text = words(meter.clipping ? "clip.level_clipping" : "clip.level_value", { level });
    this.find(".rp-meter").setAttribute("aria-valuetext", text);
    if (!recording) return;
    this.find(".rp-say").textContent = words(progress(meter, recording, this.recorder.props.enough), { seconds: decimals(recording.seconds, 1, pageLanguage()) });
  }

  showClips() {
    const { clips } = this.recorder;
    const row = this.find(".rp-clips");
    row.hidden = clips.empty;
    const focused = placeOf(row.querySelector(":focus"));
    row.replaceChildren(
      ...clips.list.map((clip) => this.line(clip, clip === clips.chosen)),
      ...clips.unsent.map((recording) => this.unsentLine(recording)),
    );
    this.showButtons();
    if (focused) this.refocus(focused);
    const merged = this.find(".rp-merged");
    merged.textContent = mergedText(clips);
    merged.hidden = !merged.textContent;
    merged.dataset.light = clips.leftOut.length ? "amber" : "";
  }

  // Focuses the same button of the same clip, or of the one in its place. Without clips, the button that adds one.
  refocus({ id, at, what }) {
    const lines = [...this.find(".rp-clips").children];
    const line = lines.find(({ dataset }) => dataset.clip === id) ?? lines[at] ?? lines.at(-1);
    const same = line?.querySelector(`[data-what="${what}"]:enabled`) ?? line?.querySelector(".rp-clip-name");
    (same ?? this.find(".rp-choose")).focus();
  }

  line(clip, chosen) {
    const { recorder } = this;
    const about = buttonsAbout(clip.name);
    const parts = [
      clipButton(lineOf(clip), clip.name, {
        class: "rp-clip-name", "data-what": "name", "aria-pressed": chosen, onclick: () => recorder.choose(clip),
      }),
      about("clip.listen", "clip.listen_to", () => recorder.listen(clip), { disabled: !clip.playable }),
      chosen && about("clip.download", "clip.download_of", () => recorder.download(clip), { disabled: !clip.playable }),
      clip.before && about("clip.undo", "clip.undo_of", () => recorder.undo(clip)),
      clip.recorded && about("clip.again", "clip.again_for", () => recorder.record(clip), { class: "rp-again" }),
      about("clip.remove", "clip.remove_of", () => recorder.remove(clip)),
    ];
    return create("li", { class: "rp-clip-line", "data-clip": clip.id }, ...parts.filter(Boolean));
  }

  unsentLine(recording) {
    const { recorder } = this;
    const { name } = recording.more;
    const about = buttonsAbout(name);
    return create("li", { class: "rp-clip-line" },
      create("span", { class: "rp-clip-unsent", text: words("clip.unsent", { name }) }),
      about("clip.send", "clip.send_of", () => recorder.sendAgain(recording), { class: "rp-again" }),
      about("clip.remove", "clip.remove_of", () => recorder.drop(recording)),
    );
  }
}

// Returns a function that makes the buttons of a clip or recording.
const buttonsAbout = (name) => (text, label, onclick, more = {}) =>
  clipButton(words(text), words(label, { name }), { "data-what": text, onclick, ...more });

// Where a button is in the list of clips; null for none.
function placeOf(button) {
  const line = button?.closest("li");
  return line ? { id: line.dataset.clip, at: [...line.parentElement.children].indexOf(line), what: button.dataset.what } : null;
}

// The key of the status text while recording.
function progress(meter, { seconds }, enough) {
  if (meter.clipping) return "clip.recording_loud";
  return seconds < enough ? "clip.recording_short" : "clip.recording";
}

function lineOf({ name, trim }) {
  if (!trim) return name;
  const [length, all] = [trim.length, trim.seconds].map((time) => secondsOf(time, pageLanguage()));
  return trim.whole ? `${name} · ${length}` : `${name} · ${words("clip.length_of", { length, all })}`;
}

// The summary of several clips; "" for a single one.
function mergedText(clips) {
  if (clips.list.length < 2) return "";
  const values = { number: clips.list.length, seconds: secondsOf(clips.length, pageLanguage()), limit: clips.mostMerged };
  const names = clips.leftOut.map(({ name }) => words("shell.quoted", { name }));
  return names.length ? words("clip.left_out", { ...values, names }) : words("clip.merged", values);
}

// label: for screen readers; it names the clip.
function clipButton(text, label, attributes) {
  const spoken = text.startsWith(label) ? {} : { "aria-label": label };
  return button({ text, ...spoken, ...attributes });
}
