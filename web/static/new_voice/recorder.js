// Records clips or accepts files, and lets the user choose a part of each, write its transcript, and repair it. The value
// is null or { chosen, clips: [{ path, name, seconds, start, end, words }] }. The server may send it back with other
// ends, another choice, or fewer clips. The recorder dispatches `reprise:recording` on the document before it opens the
// microphone.

import { CodecPreview, wavOf } from "./clips/clip_playback.js";
import { ClipServer } from "./clips/clip_server.js";
import { Clip, Clips, MAX_CLIPS } from "./clips/clips.js";
import { inspected, LongFile, MOST_MEGABYTES, MOST_MINUTES, secondsIn, storedFile, wavOfPart } from "./clips/sound_file.js";
import { DoctorView } from "./doctor.js";
import { Microphone, obstacle, refusal } from "./capture/microphone.js";
import { RecorderView } from "./recorder_view.js";
import { Countdown, Meter, Recording } from "./capture/recording.js";
import { remarks, TranscriptView } from "./transcript.js";
import { TrimView } from "./clips/trim_view.js";
import { failure, Uploads } from "./uploads.js";
import { downloadBlob } from "../shell/download.js";
import { server as connection } from "../connection/server.js";
import { clock, decimals, percent } from "../ui/format.js";
import { pageLanguage, words } from "../ui/words.js";

const COUNT_FROM = 3;
const KEEP_EVERY = 10 * 60_000; // ms; the server treats clips as abandoned after three times as long (web/uploads/store.py)

class Recorder {
  constructor({ element, props, server, upload, watch }) {
    this.props = props;
    this.uploads = new Uploads(upload, connection);
    this.clips = new Clips(props.most_merged);
    this.server = new ClipServer(server, this.uploads, this.clips, (errors) => this.uploadedAgain(errors));
    this.taking = null; // { microphone, countdown, recording, meter, instead } while the microphone is open
    this.unsent = []; // recordings that the server has refused: { file, more }, as for `take`
    this.pending = Promise.resolve(); // files and recordings are added one after the other
    this.scriptAt = 0;
    this.sentValue = "null"; // the value last sent to the server
    this.view = new RecorderView(element, this);
    const codecPreview = this.server.has("preview_codec")
      ? new CodecPreview((clip) => this.server.ask("preview_codec", clip.value), () => this.trim.update(), (text) => this.refuse(text))
      : null;
    const choosePart = (clip, start) => this.choosePart(clip, start);
    this.trim = new TrimView(element, { changed: () => this.publish(), choosePart, codecPreview });
    this.doctor = new DoctorView(element, (clip, row) => this.repair(clip, row));
    this.transcript = new TranscriptView(element, {
      written: () => this.publish(),
      check: (clip) => this.checkWords(clip),
      dictate: (clip) => window.repriseRecogniser.offer(() => this.dictate(clip)),
    });
    watch("value", () => this.accept(props.value));
    document.addEventListener("reprise:playing", () => this.trim.hush());
    document.addEventListener("reprise:back", ({ detail }) => this.recover(detail.anew));
    document.addEventListener("reprise:saved", ({ detail }) => this.clearSaved(detail.paths));
    document.addEventListener("reprise:forgotten", () => this.forget());
    setInterval(() => this.server.keepFiles(), KEEP_EVERY);
    window.addEventListener("pagehide", ({ persisted }) => persisted || this.server.discardFiles());
    this.showScript();
    this.trouble = obstacle(window);
    this.invite();
  }

  // While the microphone is open, only the recording writes the status.
  say(text, state) {
    if (!this.taking) this.view.say(text, state);
  }

  // share: of a file, which the browser has sent.
  sending(share) {
    const sent = share < 1 ? percent(share, pageLanguage()) : "";
    if (!this.taking) this.view.say(`${words("clip.uploading")} ${sent}`, "uploading", "off");
  }

  invite() {
    this.say(this.trouble || words("clip.invitation"), this.trouble ? "refused" : "empty");
  }

  refuse(text) {
    this.say(text, "refused");
    return text;
  }

  // ---- the texts to read

  showScript() {
    this.view.showScript(this.props.scripts[this.scriptAt] ?? "", this.props.scripts.length > 1);
  }

  nextScript() {
    this.scriptAt = (this.scriptAt + 1) % this.props.scripts.length;
    this.showScript();
  }

  // ---- the microphone

  press() {
    const { taking } = this;
    if (!taking) return this.start();
    if (taking.recording) return this.stop();
    return taking.countdown?.cancel();
  }

  // instead: the clip that this recording replaces.
  async start(instead = null) {
    if (this.taking || this.noRoom(instead)) return;
    const taking = (this.taking = { meter: new Meter(), instead });
    this.trim.hush();
    document.dispatchEvent(new CustomEvent("reprise:recording")); // other sound would be recorded as well
    this.view.say(words("clip.asking"), "asking");
    try {
      const gone = () => this.stop(words("clip.unplugged"));
      taking.microphone = await Microphone.open((samples) => this.hear(samples), gone);
    } catch (error) {
      this.taking = null;
      this.refuse(refusal(error));
      return;
    }
    taking.countdown = new Countdown(COUNT_FROM, (left) => this.view.count(left));
    if (await taking.countdown.over) this.record(taking);
    else await this.cancel(taking);
  }

  record(taking) {
    if (this.taking !== taking) return; // the microphone was closed during the countdown
    taking.recording = new Recording(taking.microphone.rate, this.props.longest);
    const { instead } = taking;
    taking.words = this.view.script || (instead && !instead.dictated ? instead.words : ""); // which is read again
    this.view.say(words("clip.recording_short", { seconds: decimals(0, 1, pageLanguage()) }), "recording");
  }

  hear(samples) {
    const { taking } = this;
    if (!taking?.microphone) return;
    taking.meter.hear(samples, taking.microphone.rate);
    taking.recording?.hear(samples);
    this.view.refresh();
    if (taking.recording?.full) this.stop(words("clip.full", { longest: this.props.longest }));
  }

  async stop(why = "") {
    const { taking } = this;
    if (!taking || taking.closing) return;
    taking.closing = true;
    if (!taking.recording) return taking.countdown?.cancel() ?? undefined;
    await taking.microphone.close();
    this.taking = null;
    await this.keep(taking, why);
  }

  async cancel(taking) {
    await taking.microphone.close();
    this.taking = null;
    if (taking.closing) this.refuse(words("clip.unplugged"));
    else this.invite();
  }

  async keep({ recording, meter, instead, words: read }, why) {
    if (!recording.length) return this.refuse(words("clip.no_sound"));
    const name = instead?.name ?? words("clip.recording_name", { number: this.clips.nextNumber() });
    const file = new File([recording.wav()], `${name}.wav`, { type: "audio/wav" });
    const loud = meter.clips ? words("clip.was_loud") : "";
    const recorded = words("clip.recorded", { seconds: decimals(recording.seconds, 1, pageLanguage()) });
    const message = [recorded, loud, why].filter(Boolean).join(" ");
    await this.sendRecording({ file, more: { name, message, instead, words: read, recorded: true } });
  }

  // Makes a clip of a recording. One that the server refuses is kept, because nobody else has it.
  sendRecording(recording) {
    const keep = (why) => {
      if (!why) return;
      this.unsent.push(recording);
      this.view.showClips();
      this.refuse(`${why} ${words("clip.kept")}`);
    };
    this.say(words("clip.uploading"), "uploading");
    this.pending = this.pending.then(() => this.take(recording.file, recording.more)).then(keep);
    return this.pending;
  }

  sendAgain(recording) {
    if (this.noRoom(recording.more.instead)) return undefined;
    this.drop(recording);
    return this.sendRecording(recording);
  }

  // Removes a recording that is no clip.
  drop(recording) {
    this.unsent = this.unsent.filter((other) => other !== recording);
    if (!this.clips.list.length) this.invite();
    this.view.showClips();
  }

  // ---- files

  takeAll(files) {
    if (this.taking) return this.pending;
    const refused = [];
    const note = ({ name }, why) => why && refused.push(why.includes(name) ? why : words("clip.refused", { name, why }));
    for (const file of files) {
      this.pending = this.pending.then(() => this.take(file, { name: file.name })).then((why) => note(file, why));
    }
    // Of several files, report the refused ones at the end.
    if (files.length > 1) this.pending = this.pending.then(() => refused.length && this.refuse(refused.join(" ")));
    return this.pending;
  }

  // Why no other clip can be added, "" if one can. instead: the clip that it replaces, unless that was removed.
  noRoom(instead = null) {
    return this.clips.list.includes(instead) || !this.clips.full ? "" : this.refuse(words("clip.enough", { number: MAX_CLIPS }));
  }

  // more: properties of the Clip. Resolves to the reason why the file was refused, else "".
  async take(file, { name, message = words("clip.ready", { name }), instead = null, ...more }) {
    const full = this.noRoom(instead);
    if (full) return full;
    this.say(words("clip.uploading"), "uploading");
    const length = await secondsIn(file);
    const { longest } = this.props;
    const isLong = LongFile.is(length, longest);
    const limit = isLong ? MOST_MEGABYTES : this.props.max_mb;
    if (file.size > limit * 2 ** 20) return this.refuse(words("clip.too_large", { name, limit }));
    if (isLong) return this.cut(new LongFile(file, length, longest), 0, { name });
    let path;
    const sending = new AbortController();
    this.view.offerCancel(sending);
    try {
      path = await this.uploads.send(file, (share) => this.sending(share), sending.signal);
    } catch (error) {
      return this.refuse(failure(error));
    } finally {
      this.view.offerCancel(null);
    }
    try {
      const heard = await inspected(file, length, () => this.server.peaksOf(path));
      if (!this.clips.list.includes(instead)) { // removed meanwhile; only a recording is kept
        if (instead && (more.cutFrom || more.before)) return this.discard(path);
        instead = null;
      }
      if (instead && instead !== more.before) this.server.forget(instead);
      instead?.cutFrom?.transcripts.set(instead.cutAt, instead.words);
      this.clips.add(new Clip({ file, path, name, ...more, ...heard }), instead);
      if (!more.recorded && !this.taking) this.view.foldScript(); // a file has words of its own, whose field is then in view
      this.say(message, "ready");
      this.publish();
      return "";
    } catch (error) {
      this.server.call("forget_clip", { path });
      return this.refuse(error.message);
    }
  }

  // Forgets an upload of which no clip is made.
  discard(path) {
    this.server.call("forget_clip", { path });
    this.invite();
    return "";
  }

  // Adds the part of a long file at `start` as a clip. Resolves as `take` does.
  async cut(whole, start, { name, instead = null }) {
    const { longest } = this.props;
    if (whole.tooLong) return this.refuse(words("clip.too_long_to_cut", { name, minutes: MOST_MINUTES }));
    this.say(words("clip.cutting", { name }), "uploading");
    let file;
    try {
      file = await whole.cut(start);
    } catch {
      return this.refuse(words("clip.too_long", { name, longest }));
    }
    const [from, to, all] = [start, start + longest, whole.seconds].map(clock);
    const message = words("clip.part", { name, all, from, to });
    return this.take(file, { name, message, instead, words: whole.transcripts.get(start), cutFrom: whole, cutAt: start });
  }

  // The clips and the recordings that are no clips, with what is being added now.
  all() {
    return this.pending.then(() => [...this.clips.list, ...this.unsent]);
  }

  // Replaces clips by those of a saved voice. clips: [{ url, name, words }]. former: the result of `all` when they were asked for.
  open(clips, former = this.all()) {
    this.pending = this.pending.then(async () => this.removeAll(await former));
    for (const clip of clips) this.pending = this.pending.then(() => this.takeStored(clip));
  }

  async takeStored({ url, name, words: written }) {
    const file = await storedFile(url, `${name}.wav`);
    if (!file) return this.refuse(words("clip.refused", { name, why: words("player.unreachable") }));
    return this.take(file, { name, words: written });
  }

  // Replaces a clip by the part of its file that begins at `start`. Each part keeps its transcript.
  choosePart(clip, start) {
    this.trim.hush();
    const isThere = () => this.clips.list.includes(clip);
    this.pending = this.pending.then(() => isThere() && this.cut(clip.cutFrom, start, { name: clip.name, instead: clip }));
    return this.pending;
  }

  // ---- findings and transcripts

  // Has the server examine the chosen part of a clip, once per part.
  async examine(clip) {
    const { part, trim } = clip;
    if (!this.server.has("examine_clip") || clip.found?.part === part || clip.asked === part) return;
    clip.asked = part;
    const whole = !trim || trim.whole;
    const found = await this.server.ask("examine_clip", clip.value);
    if (whole) clip.best ??= found.best ?? null;
    if (clip.part !== part) return this.examine(clip);
    clip.asked = null;
    clip.find({ ...found, part });
    this.show();
    const unwritten = !clip.words.trim() || (clip.dictated && clip.moved);
    if (window.repriseRecogniser?.ready && found.speech_seconds && unwritten) this.dictate(clip, { asked: false });
    else await this.checkWords(clip);
  }

  async checkWords(clip) {
    const { words: written, speechSeconds, part } = clip;
    if (!this.server.has("check_words") || speechSeconds === null || !written.trim()) return this.showFindings();
    const { row = null } = await this.server.ask("check_words", { words: written, speech_seconds: speechSeconds });
    if (clip.words !== written || clip.part !== part) return;
    clip.wordsRow = row;
    this.showFindings();
  }

  // Has the server transcribe the chosen part. asked: by the user; only then is a failure shown.
  async dictate(clip, { asked = true } = {}) {
    if (clip.dictating) return;
    const { part, words: before } = clip;
    clip.dictating = true;
    clip.undictated = "";
    this.showFindings();
    const { words: heard, problem } = await this.server.ask("write_words", clip.value);
    clip.dictating = false;
    if (problem) {
      if (asked) clip.undictated = problem;
    } else if (clip.part === part && clip.words === before) {
      clip.write(heard);
      clip.dictated = true;
      this.publish();
    }
    await this.checkWords(clip);
  }

  // Applies the remedy of a finding: moves the ends, or has the server repair the part into a new clip.
  async repair(clip, { fix, part }) {
    if (part && clip.trim) {
      clip.trim.set(...part);
      this.publish();
      return;
    }
    this.trim.hush();
    this.say(words("clip.repairing"), "uploading");
    const { part: repaired } = clip;
    const { wav, problem } = await this.server.ask("repair_clip", { ...clip.value, fix });
    if (problem) return this.refuse(problem);
    if (clip.part !== repaired || !this.clips.list.includes(clip)) return this.invite(); // the part has changed, or the clip is gone
    const { name, recorded, words: written, wordsSpoken } = clip;
    const file = new File([wavOf(wav)], `${name}.wav`, { type: "audio/wav" });
    const message = words("clip.repaired", { name });
    await this.take(file, { name, message, instead: clip, before: clip, recorded, words: written, wordsSpoken });
  }

  undo(clip) {
    const { before } = clip;
    before.words = clip.words;
    this.server.forget(clip, { alone: true });
    this.clips.add(before, clip);
    this.publish();
  }

  // Called when the server is back. anew: it is a new process, which has none of the files, so they are uploaded again.
  async recover(anew) {
    for (const clip of this.clips.list) if (clip.found?.problem) clip.found = null;
    if (anew) await this.server.uploadAgain(this.clips.paths);
    else if (this.clips.list.length) this.publish();
  }

  // errors: of files that the server had deleted and does not take again.
  uploadedAgain(errors) {
    if (errors.length) this.refuse(failure(errors[0]));
    this.publish();
  }

  // ---- the list

  choose(clip) {
    this.clips.chosen = clip;
    if (clip.found?.problem) clip.found = null; // it is examined again
    this.publish();
  }

  async listen(clip) {
    const again = this.clips.chosen === clip && this.trim.player.playing;
    if (this.clips.chosen !== clip) this.choose(clip);
    if (again || clip.playable) await this.trim.toggle();
  }

  // Saves the chosen part in the browser's downloads.
  async download(clip) {
    downloadBlob(await wavOfPart(clip), `${clip.file.name.replace(/\.[^.]*$/, "")}.wav`);
  }

  remove(clip) {
    this.server.forget(clip);
    this.clips.remove(clip);
    if (!this.clips.list.length) {
      this.invite();
      this.view.unfoldScript();
    }
    this.publish();
  }

  removeAll(which = [...this.clips.list, ...this.unsent]) {
    this.unsent.filter((recording) => which.includes(recording)).forEach((recording) => this.drop(recording));
    this.clips.list.filter((clip) => which.includes(clip)).forEach((clip) => this.remove(clip));
  }

  // Removes all clips, also those of files and recordings that are being added.
  forget() {
    this.removeAll();
    this.open([]);
  }

  // Removes the clips of a saved voice, whose files these were.
  clearSaved(paths) {
    this.clips.list.filter(({ path }) => paths.includes(path)).forEach((clip) => this.remove(clip));
  }

  publish() {
    const value = this.clips.value();
    this.sentValue = JSON.stringify(value);
    this.props.value = value;
    this.show();
  }

  accept(value) {
    if (JSON.stringify(value ?? null) === this.sentValue) return; // it is our own value
    this.clips.accept(value || null).forEach((clip) => this.server.forget(clip));
    this.sentValue = JSON.stringify(this.clips.value());
    if (!this.clips.list.length) this.invite();
    this.show();
  }

  show() {
    const { chosen, list } = this.clips;
    this.view.showClips();
    this.trim.show(chosen);
    this.showFindings();
    for (const clip of list) this.examine(clip);
  }

  // Shows the findings about the chosen clip's transcript and sound.
  showFindings() {
    const { chosen } = this.clips;
    const findings = chosen ? remarks(chosen) : [];
    this.transcript.show(chosen, findings);
    this.doctor.show(this.server.has("examine_clip") ? chosen : null, findings);
  }
}

export function mount(component) {
  const recorder = new Recorder(component);
  window.repriseRecorder = {
    all: () => recorder.all(),
    open: (...clips) => recorder.open(...clips),
    get unsaved() {
      return recorder.view.unsaved;
    },
    // Resolves to the clips, whose files the server has. Called before a voice is made of them.
    async ready() {
      await recorder.server.keepFiles();
      return recorder.clips.value();
    },
  };
}
