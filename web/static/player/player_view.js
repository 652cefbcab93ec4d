// The player's display and controls.

import { seconds } from "./playback.js";
import { create } from "../ui/elements.js";
import { clock, secondsOf, stallsOf } from "../ui/format.js";
import { barsOf, PEAKS_PER_SECOND } from "../ui/peaks.js";
import { encodeWav } from "../ui/wav.js";
import { barCount, paintBars, paintLine, Waveform } from "../ui/waveform.js";
import { pageLanguage, words } from "../ui/words.js";

const STEPS = { ArrowLeft: -2, ArrowDown: -2, ArrowRight: 2, ArrowUp: 2, PageDown: -10, PageUp: 10 }; // seconds
const SHORT = 10; // seconds: below, tenths are shown
const EDGES = { Home: 0, End: Infinity };

const tenth = (time) => secondsOf(time, pageLanguage());

export class PlayerView {
  constructor(element, player) {
    this.player = player;
    this.find = (selector) => element.querySelector(selector);
    this.held = null; // seconds at the pointer while dragging
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.area = this.find(".rp-wave");
    this.wave = new Waveform(this.area, (...pen) => this.paint(...pen));
    this.find(".rp-play").onclick = () => this.toggle();
    this.find(".rp-halt").onclick = () => player.stopAll();
    this.find(".rp-download").onclick = () => this.download();
    this.area.onkeydown = (event) => this.steer(event);
    this.area.onpointerdown = (event) => this.grab(event);
    this.area.onpointermove = (event) => this.held !== null && this.drag(event);
    this.area.onpointerup = () => this.drop();
    this.area.onpointercancel = () => this.letGo();
    this.wave.draw();
  }

  get sound() {
    return this.player.playback.sound;
  }

  // The position to draw: extrapolated between two reports, in steps of a second where reduced motion is preferred.
  get time() {
    if (this.held !== null) return this.held;
    const { playback } = this.player;
    if (!this.sound) return 0;
    const flowing = playback.sounding && playback.wanted && !playback.at.waiting && playback.at.now;
    const time = playback.seconds + (flowing ? seconds() - playback.at.now : 0);
    const reached = Math.max(0, Math.min(time, this.sound.seconds));
    return this.calm.matches && flowing ? Math.floor(reached) : reached;
  }

  // ---- controls

  toggle() {
    this.player.playback.toggle();
    this.player.calm();
  }

  grab(event) {
    if (!this.sound?.length || event.button > 0) return;
    this.area.setPointerCapture(event.pointerId);
    this.area.focus();
    this.drag(event);
    event.preventDefault();
  }

  drag(event) {
    const { left, width } = this.area.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - left) / width));
    this.held = Math.min(share * this.sound.span, this.sound.seconds);
    this.refresh();
  }

  drop() {
    if (this.held === null) return;
    this.player.playback.seek(this.held);
    this.letGo();
  }

  letGo() {
    this.held = null;
    this.refresh();
  }

  steer(event) {
    if (!this.sound?.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (key === " " || key === "Enter") this.toggle();
    else if (key in STEPS) this.player.playback.seek(this.time + STEPS[key]);
    else if (key in EDGES) this.player.playback.seek(EDGES[key]);
    else return;
    event.preventDefault();
  }

  // The file is made of the samples that are here, which are the server's; so no link can have expired.
  download() {
    const { sound } = this;
    const href = URL.createObjectURL(new Blob([encodeWav(sound.all(), sound.rate)], { type: "audio/wav" }));
    create("a", { href, download: sound.wav.name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  }

  // ---- display

  show() {
    const { player, sound } = this;
    const other = sound && sound !== player.live; // a take of the list
    const lost = ["problem", "stopped"].includes(player.state); // the state of a take that is not loaded
    const { ms = null, stalls = null } = sound ?? {};
    const heard = [ms !== null && words("player.first_sound", { ms }), stallsOf(stalls, pageLanguage())];
    this.find(".rp-player").dataset.state = player.state;
    this.find(".rp-player").dataset.blank = !sound && player.state !== "waiting";
    this.find(".rp-status").textContent = other && !lost ? sound.status : player.status;
    this.find(".rp-first").textContent = lost ? "" : heard.filter(Boolean).join(" · ");
    this.find(".rp-download").hidden = !sound?.wav;
    this.refresh();
  }

  refresh() {
    const { playback } = this.player;
    const { time, sound, area } = this;
    const total = sound?.seconds ?? 0;
    this.find(".rp-play").disabled = !sound?.length;
    this.find(".rp-halt").hidden = !this.player.active;
    this.find(".rp-play").setAttribute("aria-label", words(playback.wanted && total ? "player.pause" : "player.play"));
    this.find(".rp-player").dataset.sounding = playback.wanted && total > 0;
    const [at, length] = [time, total].map(sound?.span < SHORT ? tenth : clock);
    this.find(".rp-time").textContent = `${at} / ${length}`;
    area.setAttribute("aria-disabled", !total);
    area.setAttribute("aria-valuemax", total.toFixed(1));
    area.setAttribute("aria-valuenow", Math.min(time, total).toFixed(1));
    area.setAttribute("aria-valuetext", words("player.of", { at, length }));
    this.wave.draw();
  }

  paint(pen, width, height, colour) {
    const { sound, time } = this;
    const span = Math.max(sound?.span ?? 0, 0.1);
    const bars = barsOf(sound?.peaks.values ?? [], span * PEAKS_PER_SECOND, barCount(width));
    const [rest, heard, here] = ["--rp-rest", "--rp-heard", "--rp-here"].map(colour);
    paintBars(pen, bars, height, (share, bar) => (bar === null ? rest : share < time / span ? heard : here));
    if (sound?.length) paintLine(pen, Math.max(1, Math.min(width - 1, (time / span) * width)), height, heard);
    // During playback it is drawn at every frame.
    if (this.player.playback.sounding && !this.calm.matches) this.wave.draw();
  }
}
