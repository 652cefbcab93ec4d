// The chosen clip's waveform with its two ends, moved by hand or by keys.

import { ClipPlayer } from "./clip_playback.js";
import { keyStep } from "./trim.js";
import { decimals, secondsOf } from "../../ui/format.js";
import { barsOf } from "../../sound/peaks.js";
import { barCount, paintBars, paintLine, Waveform } from "../../sound/waveform.js";
import { pageLanguage, words } from "../../ui/words.js";

export class TrimView {
  // element: contains .rp-trim. changed(): an end was moved and released. choosePart(clip, start): resolves when the clip
  // is replaced by another part of its long file. codecPreview: a CodecPreview.
  constructor(element, { changed, choosePart, codecPreview }) {
    Object.assign(this, { changed, choosePart, codecPreview, clip: null, dragged: null, soon: null, player: new ClipPlayer() });
    this.find = (selector) => element.querySelector(selector);
    this.area = this.find(".rp-trim-wave");
    this.wave = new Waveform(this.area, (...pen) => this.paint(...pen));
    this.handles = { start: this.find(".rp-handle-start"), end: this.find(".rp-handle-end") };
    for (const [end, handle] of Object.entries(this.handles)) {
      handle.onkeydown = (event) => this.press(event, end);
      handle.onblur = () => this.release(); // whatever is pressed next, such as Save, gets the new ends
    }
    this.area.onpointerdown = (event) => this.grab(event);
    this.area.onpointermove = (event) => this.dragged && this.drag(event);
    this.area.onpointerup = this.area.onpointercancel = () => this.drop();
    this.find(".rp-trim-play").onclick = () => this.toggle();
    this.find(".rp-trim-back").onclick = () => this.togglePreview();
    this.find(".rp-trim-best").onclick = () => this.use(...this.clip.best);
    this.find(".rp-trim-all").onclick = () => this.use(0, this.clip.seconds);
    this.parts = { earlier: this.find(".rp-trim-earlier"), later: this.find(".rp-trim-later") };
    for (const [way, button] of Object.entries(this.parts)) button.onclick = () => this.choose(way);
  }

  // clip: a Clip or null.
  show(clip) {
    if (clip !== this.clip) this.hush();
    this.clip = clip;
    this.find(".rp-trim").hidden = !clip?.trim;
    if (!clip?.trim) return;
    this.find(".rp-trim").setAttribute("aria-label", words("clip.trim", { name: clip.name }));
    this.find(".rp-trim-play").disabled = !clip.playable;
    this.find(".rp-trim-silent").hidden = clip.playable;
    for (const [way, button] of Object.entries(this.parts)) button.hidden = this.startOf(way) === null;
    this.update();
  }

  update() {
    if (!this.clip?.trim) return;
    const { trim, best } = this.clip;
    for (const [end, handle] of Object.entries(this.handles)) {
      const [least, most] = trim.bounds(end);
      handle.style.left = `${(trim[end] / trim.seconds) * 100}%`;
      handle.setAttribute("aria-valuemin", least.toFixed(2));
      handle.setAttribute("aria-valuemax", most.toFixed(2));
      handle.setAttribute("aria-valuenow", trim[end].toFixed(2));
      handle.setAttribute("aria-valuetext", words("clip.seconds", { seconds: decimals(trim[end], 2, pageLanguage()) }));
    }
    const [start, end, length, all] = [trim.start, trim.end, trim.length, trim.seconds].map((time) => secondsOf(time, pageLanguage(), 2));
    const range = trim.whole ? "clip.range" : "clip.range_of";
    this.find(".rp-trim-range").textContent = words(range, { start, end, length, all });
    this.find(".rp-trim-all").hidden = trim.whole;
    this.find(".rp-trim-best").hidden = !best || trim.is(...best);
    this.find(".rp-trim-play").textContent = words(this.player.playing ? "clip.stop" : "clip.play");
    this.updatePreview();
    const sounds = this.player.playing || this.codecPreview.playing;
    window.reprisePlayer?.activity("clip", sounds ? () => this.hush() : null);
    this.wave.draw();
  }

  updatePreview() {
    const button = this.find(".rp-trim-back");
    const waits = this.codecPreview.waitsFor(this.clip);
    button.setAttribute("aria-disabled", Boolean(waits)); // not `disabled`, which would lose the focus
    button.textContent = words(waits ? "clip.back_waits" : this.codecPreview.playing ? "clip.back_stop" : "clip.back");
  }

  // ---- controls

  timeAt({ clientX }) {
    const { left, width } = this.area.getBoundingClientRect();
    return ((clientX - left) / width) * this.clip.trim.seconds;
  }

  // A press anywhere on the waveform moves the nearer end.
  grab(event) {
    if (event.button > 0) return;
    this.hush();
    this.dragged = this.clip.trim.nearest(this.timeAt(event));
    this.area.setPointerCapture(event.pointerId);
    this.handles[this.dragged].focus();
    this.drag(event);
    event.preventDefault();
  }

  drag(event) {
    this.clip.trim.move(this.dragged, this.timeAt(event));
    this.update();
  }

  drop() {
    if (!this.dragged) return;
    this.dragged = null;
    this.changed();
  }

  press(event, end) {
    const step = keyStep(event);
    if (step === null || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.clip.trim.nudge(end, step);
    this.update();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.release(), 200); // a held key is one change
  }

  release() {
    if (!this.soon) return;
    clearTimeout(this.soon);
    this.soon = null;
    this.changed();
  }

  use(start, end) {
    this.clip.trim.set(start, end);
    this.update();
    this.handles.start.focus(); // the button is gone
    this.changed();
  }

  // The start of the part before or after the clip in its long file; null if there is none. way: "earlier" or "later".
  startOf(way) {
    return this.clip.cutFrom?.[way](this.clip.cutAt) ?? null;
  }

  async choose(way) {
    this.hush();
    await this.choosePart(this.clip, this.startOf(way));
    if (document.activeElement === document.body) this.handles.start.focus(); // the button is gone
  }

  // ---- sound

  hush() {
    this.player.stop();
    this.codecPreview.stop();
  }

  async toggle() {
    if (this.player.playing) {
      this.player.stop();
      this.update();
      return;
    }
    this.hush();
    const { file, trim } = this.clip;
    await this.player.play(file, trim.start, trim.end, () => this.update());
    this.update();
  }

  async togglePreview() {
    if (this.codecPreview.waitsFor(this.clip)) return;
    this.player.stop();
    this.update();
    await this.codecPreview.toggle(this.clip);
  }

  paint(pen, width, height, colour) {
    if (!this.clip?.trim) return;
    const { trim, peaks } = this.clip;
    const [inside, outside, line] = ["--rp-heard", "--rp-rest", "--rp-here"].map(colour);
    const bars = barsOf(peaks, peaks.length, barCount(width));
    const [from, to] = [trim.start / trim.seconds, trim.end / trim.seconds];
    paintBars(pen, bars, height, (share) => (share >= from && share <= to ? inside : outside));
    const { time } = this.player;
    if (time === null) return;
    paintLine(pen, (time / trim.seconds) * width, height, line);
    this.wave.draw();
  }
}
