// The player's display and controls.

import { factsOf, listDetails, SpokenLine } from "./details.js";
import { MediaSessionControls } from "./media_session.js";
import { seconds } from "./playback.js";
import { downloadBlob, downloadUrl } from "../shell/download.js";
import { button, create } from "../ui/elements.js";
import { clock, percent, secondsOf, stallsOf } from "../ui/format.js";
import { SOUND_FORMATS } from "../sound/formats.js";
import { draw } from "../ui/icons.js";
import { closeMenu } from "../ui/menus.js";
import { atLoudness, isLoud, loudnessChoice } from "../sound/loudness.js";
import { barsOf, PEAKS_PER_SECOND } from "../sound/peaks.js";
import { remember, remembered } from "../ui/remember.js";
import { encodeWav } from "../sound/wav.js";
import { barCount, paintBars, paintLine, Waveform } from "../sound/waveform.js";
import { pageLanguage, words } from "../ui/words.js";

const STEPS = { ArrowLeft: -2, ArrowDown: -2, ArrowRight: 2, ArrowUp: 2, PageDown: -10, PageUp: 10 }; // seconds
const SHORT = 10; // seconds; tenths are shown for shorter sounds
const EDGES = { Home: 0, End: Infinity };
const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
const KEPT = "reprise.transport"; // speed and volume, in this browser

// Firefox can freeze for ever when it is asked for the latency while a worklet plays: its main thread holds a lock that the
// worklet needs, and waits for the sound server, which waits for the worklet.
const tellsLatency = () => !navigator.userAgent.includes("Firefox/");

const tenth = (time) => secondsOf(time, pageLanguage());

// The states of a take that is not loaded.
export const MESSAGES = ["requested", "problem", "stopped", "fetching"];

export class PlayerView {
  constructor(element, player) {
    this.player = player;
    this.find = (selector) => element.querySelector(selector);
    this.held = null; // seconds at the pointer while dragging
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.area = this.find(".rp-wave");
    this.wave = new Waveform(this.area, (...pen) => this.paint(...pen));
    this.find(".rp-play").onclick = () => this.toggle();
    this.find(".rp-stop-all").onclick = () => player.stopAll();
    this.find(".rp-download").onclick = () => this.download("wav");
    this.system = new MediaSessionControls(player);
    this.line = new SpokenLine(this.find(".rp-now-portrait"), this.find(".rp-now-line"));
    this.speed = this.find(".rp-speed");
    this.loudness = this.find(".rp-loudness");
    this.buildControls(element);
    document.addEventListener("reprise:coloured", () => this.show());
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

  // Whether the position moves.
  get flowing() {
    const { sounding, wanted, at } = this.player.playback;
    return Boolean(sounding && wanted && !at.waiting && at.now);
  }

  // The position, extrapolated between two reports.
  get position() {
    if (this.held !== null) return this.held;
    const { playback } = this.player;
    if (!this.sound) return 0;
    const time = playback.seconds + (this.flowing ? (seconds() - playback.at.now) * playback.speed : 0);
    return Math.max(0, Math.min(time, this.sound.seconds));
  }

  // The position to draw: in steps of a second where reduced motion is preferred.
  get time() {
    return this.calm.matches && this.flowing && this.held === null ? Math.floor(this.position) : this.position;
  }

  // The position that is heard now: earlier than `position` by the output latency, which is up to 0.3 s for wireless
  // speakers. In Firefox it equals `position`.
  get heard() {
    const { sounding, graph, speed } = this.player.playback;
    const late = sounding && this.held === null && tellsLatency() ? (graph?.context.outputLatency ?? 0) : 0;
    return Math.max(0, this.position - late * speed);
  }

  // ---- controls

  buildControls(element) {
    draw(element);
    const times = (speed) => words("player.times", { speed });
    this.speed.replaceChildren(...SPEEDS.map((speed) => create("option", { value: String(speed), text: times(speed) })));
    const save = (format) => {
      closeMenu(this.find(".rp-formats"));
      this.download(format);
    };
    const named = (format) => ({ "aria-label": words("takes.save", { format: SOUND_FORMATS[format] }), text: SOUND_FORMATS[format] });
    const formats = Object.keys(SOUND_FORMATS).map((format) => button({ ...named(format), onclick: () => save(format) }));
    this.find(".rp-formats .rp-menu-list").replaceChildren(loudnessChoice(), ...formats);
    const { speed = 1, volume = 1 } = kept();
    this.speed.value = String(SPEEDS.includes(speed) ? speed : 1);
    this.loudness.value = String(volume);
    this.speed.onchange = this.loudness.oninput = () => this.tune();
    this.find(".rp-mute").onclick = () => {
      const loud = Number(this.loudness.value);
      this.loudness.value = String(loud ? 0 : this.before || 1);
      this.before = loud;
      this.tune();
    };
    this.tune();
  }

  // Applies speed and volume to all sounds, and stores them in this browser.
  tune() {
    const [speed, volume] = [Number(this.speed.value), Number(this.loudness.value)];
    if (speed !== this.player.playback.speed) this.player.playback.setSpeed(speed);
    this.player.setVolume(volume);
    this.loudness.setAttribute("aria-valuetext", percent(volume, pageLanguage()));
    this.find(".rp-mute").setAttribute("aria-pressed", volume === 0);
    this.speed.toggleAttribute("data-changed", speed !== 1);
    remember(KEPT, JSON.stringify({ speed, volume }));
  }

  toggle() {
    this.player.playback.toggle();
    this.player.clearMessage();
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
    else if (key in STEPS) this.player.playback.seek(this.position + STEPS[key]);
    else if (key in EDGES) this.player.playback.seek(EDGES[key]);
    else return;
    event.preventDefault();
  }

  // A WAV is made from the samples in the browser, which need no link, unless the server's file has a watermark or another
  // loudness.
  async download(format) {
    const { sound } = this;
    const here = format === "wav" && sound.wav && !sound.wav.marked && !(isLoud() && factsOf(sound).links);
    if (!here && factsOf(sound).links?.[format]) {
      downloadUrl(atLoudness((await this.player.links.of(sound.id))[format]));
      return;
    }
    const wav = encodeWav(sound.all(), sound.rate, sound.wav.tags ?? factsOf(sound).tags);
    downloadBlob(new Blob([wav], { type: "audio/wav" }), sound.wav.name);
  }

  // ---- display

  show() {
    const { player, sound } = this;
    const lost = MESSAGES.includes(player.state);
    const { ms = null, stalls = null } = sound ?? {};
    const heard = [ms !== null && words("player.first_sound", { ms }), stallsOf(stalls, pageLanguage())];
    this.find(".rp-player").dataset.state = player.state;
    this.find(".rp-player").dataset.blank = !sound && player.state !== "waiting";
    // Screen readers skip the running figures.
    this.find(".rp-status").setAttribute("aria-live", player.state === "speaking" ? "off" : "polite");
    this.find(".rp-first").textContent = lost ? "" : heard.filter(Boolean).join(" · ");
    this.find(".rp-download").hidden = !sound?.wav && !factsOf(sound).links;
    this.find(".rp-formats").hidden = !factsOf(sound).links;
    this.find(".rp-details").hidden = !sound;
    this.line.show(sound);
    this.system.describe(sound);
    listDetails(this.find(".rp-detail-list"), sound);
    this.refresh();
  }

  get status() {
    const { player, sound } = this;
    const { playback, state, take, status } = player;
    if (playback.silent) return words("player.silent");
    if (state === "speaking" && playback.buffering) {
      return words("player.buffering", { time: tenth(sound.seconds - playback.seconds) });
    }
    const other = sound && sound !== take.sound && !MESSAGES.includes(state); // a take of the list
    return (other ? sound.status : status) || (sound ? "" : words("player.empty"));
  }

  refresh() {
    const { playback } = this.player;
    const line = this.find(".rp-status");
    const text = this.status;
    if (line.textContent !== text) line.textContent = text; // it is announced once
    const { time, sound, area } = this;
    const total = sound?.seconds ?? 0;
    this.find(".rp-play").disabled = !sound?.length;
    this.allowStop(this.player.active);
    this.find(".rp-play").setAttribute("aria-label", words(playback.wanted && total ? "player.pause" : "player.play"));
    this.find(".rp-play").dataset.sounding = playback.wanted && total > 0;
    const [at, length] = [time, total].map(sound?.span < SHORT ? tenth : clock);
    this.find(".rp-time").textContent = sound ? `${at} / ${length}` : "";
    area.setAttribute("aria-disabled", !total);
    area.setAttribute("aria-valuemax", total.toFixed(1));
    area.setAttribute("aria-valuenow", Math.min(time, total).toFixed(1));
    area.setAttribute("aria-valuetext", words("player.of", { at, length }));
    this.line.mark(sound, this.heard);
    this.wave.draw();
    this.system.place(this.position);
  }

  // A button that is disabled loses the focus: its neighbour takes it.
  allowStop(active) {
    const stop = this.find(".rp-stop-all");
    if (!active && stop === document.activeElement) (this.find(".rp-play:enabled") ?? this.area).focus();
    stop.disabled = !active;
    document.querySelector("#rp-stop")?.setAttribute("title", stop.title); // made by Gradio
  }

  paint(pen, width, height, colour) {
    const { sound, time } = this;
    const span = Math.max(sound?.span ?? 0, 0.1);
    const bars = barsOf(sound?.peaks.values ?? [], span * PEAKS_PER_SECOND, barCount(width));
    const [rest, heard, here] = ["--rp-rest", "--rp-heard", "--rp-here"].map(colour);
    paintBars(pen, bars, height, (share, bar) => (bar === null ? rest : share < time / span ? heard : here));
    if (sound?.length) paintLine(pen, Math.max(1, Math.min(width - 1, (time / span) * width)), height, heard);
    // During playback every frame is drawn.
    if (this.player.playback.sounding) this.line.mark(sound, this.heard);
    if (this.player.playback.sounding && !this.calm.matches) this.wave.draw();
  }
}

function kept() {
  try {
    return JSON.parse(remembered(KEPT)) ?? {};
  } catch {
    return {};
  }
}
