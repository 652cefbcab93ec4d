// Records clips or accepts files, and lets the user choose a part of each, write its transcript, and repair it. The value
// is null or { chosen, clips: [{ path, name, seconds, start, end, words }] }. The server may send it back with other
// ends, another choice, or fewer clips. The recorder dispatches `reprise:recording` on the document before it opens the
// microphone.

import { ClipExaminer } from "./clips/clip_examiner.js";
import { ClipImporter } from "./clips/clip_importer.js";
import { CodecPreview } from "./clips/clip_playback.js";
import { ClipServer } from "./clips/clip_server.js";
import { Clips } from "./clips/clips.js";
import { wavOfPart } from "./clips/sound_file.js";
import { TrimView } from "./clips/trim_view.js";
import { Capture } from "./capture/capture.js";
import { refusal } from "./capture/microphone.js";
import { DoctorView } from "./doctor.js";
import { RecorderView } from "./recorder_view.js";
import { remarks, TranscriptView } from "./transcript.js";
import { failure, Uploads } from "./uploads.js";
import { downloadBlob } from "../shell/download.js";
import { server as connection } from "../connection/server.js";
import { decimals } from "../ui/format.js";
import { pageLanguage, words } from "../ui/words.js";

const KEEP_EVERY = 10 * 60_000; // ms; the server treats clips as abandoned after three times as long (web/uploads/store.py)

class Recorder {
  constructor({ element, props, server, upload, watch }) {
    this.props = props;
    this.clips = new Clips(props.most_merged);
    this.capture = null; // a Capture while the microphone is open
    this.sentValue = "null"; // the value last sent to the server
    const uploads = new Uploads(upload, connection);
    this.server = new ClipServer(server, uploads, this.clips, (errors) => this.uploadedAgain(errors));
    this.view = new RecorderView(element, this);
    const added = (clip, message) => this.added(clip, message);
    this.importer = new ClipImporter({ clips: this.clips, server: this.server, uploads, limits: props, view: this.view, added });
    this.examiner = new ClipExaminer({
      server: this.server,
      recogniser: () => window.repriseRecogniser,
      examined: () => this.show(),
      changed: () => this.showFindings(),
      transcribed: () => this.publish(),
    });
    const coded = (clip) => this.server.ask("preview_codec", clip.value);
    const codecPreview = new CodecPreview(coded, () => this.trim.update(), (text) => this.view.refuse(text));
    const choosePart = (clip, start) => this.importer.choosePart(clip, start);
    this.trim = new TrimView(element, { changed: () => this.publish(), choosePart, codecPreview });
    this.doctor = new DoctorView(element, (clip, row) => this.repair(clip, row));
    this.transcript = new TranscriptView(element, {
      written: () => this.publish(),
      check: (clip) => this.examiner.checkTranscript(clip),
      dictate: (clip) => window.repriseRecogniser.offer(() => this.examiner.transcribe(clip)),
    });
    watch("value", () => this.accept(props.value));
    document.addEventListener("reprise:playing", () => this.trim.hush());
    document.addEventListener("reprise:back", ({ detail }) => this.recover(detail.anew));
    document.addEventListener("reprise:saved", ({ detail }) => this.clearSaved(detail.paths));
    document.addEventListener("reprise:forgotten", () => this.forget());
    setInterval(() => this.server.keepFiles(), KEEP_EVERY);
    window.addEventListener("pagehide", ({ persisted }) => persisted || this.server.discardFiles());
    this.view.invite();
  }

  // ---- the microphone

  press() {
    if (this.capture) this.capture.end("stopped");
    else this.record();
  }

  // instead: the clip that this recording replaces.
  async record(instead = null) {
    if (this.capture || this.importer.noRoom(instead)) return;
    const capture = (this.capture = new Capture(this.props.longest, () => this.view.refresh()));
    let read = "";
    this.trim.hush();
    document.dispatchEvent(new CustomEvent("reprise:recording")); // other sound would be recorded as well
    this.view.showState(words("clip.asking"), "asking");
    try {
      await capture.open();
    } catch (error) {
      this.capture = null;
      this.view.refuse(refusal(error));
      return;
    }
    if (await capture.countDown((left) => this.view.count(left))) {
      read = this.view.script || (instead && !instead.dictated ? instead.words : ""); // which is read again
      this.view.showState(words("clip.recording_short", { seconds: decimals(0, 1, pageLanguage()) }), "recording");
      await capture.record();
    }
    await capture.close();
    this.capture = null;
    if (capture.recording) await this.keep(capture, read, instead);
    else if (capture.ending === "lost") this.view.refuse(words("clip.unplugged"));
    else this.view.invite();
  }

  // read: the text that was read aloud.
  async keep({ recording, meter, ending }, read, instead) {
    if (!recording.length) return this.view.refuse(words("clip.no_sound"));
    const name = instead?.name ?? words("clip.recording_name", { number: this.clips.nextNumber() });
    const file = new File([recording.wav()], `${name}.wav`, { type: "audio/wav" });
    const recorded = words("clip.recorded", { seconds: decimals(recording.seconds, 1, pageLanguage()) });
    const loud = meter.clips ? words("clip.was_loud") : "";
    const why = { stopped: "", full: words("clip.full", { longest: this.props.longest }), lost: words("clip.unplugged") }[ending];
    const message = [recorded, loud, why].filter(Boolean).join(" ");
    await this.importer.addRecording({ file, more: { name, message, instead, words: read, recorded: true } });
  }

  // ---- adding and replacing clips

  addFiles(files) {
    if (!this.capture) this.importer.addFiles(files);
  }

  added(clip, message) {
    if (!clip.recorded && !this.capture) this.view.foldScript(); // a file has words of its own, whose field is then in view
    this.view.say(message, "ready");
    this.publish();
  }

  sendAgain(recording) {
    if (this.importer.noRoom(recording.more.instead)) return;
    this.drop(recording);
    this.importer.addRecording(recording);
  }

  // Replaces clips by those of a saved voice. clips: [{ url, name, words }]. former: the result of `importer.all` when they were
  // asked for.
  open(clips, former = this.importer.all()) {
    this.importer.addStored(clips, async () => this.removeAll(await former));
  }

  // Applies the remedy of a finding: moves the ends, or has the server repair the part into a new clip.
  repair(clip, { fix, part }) {
    if (part && clip.trim) {
      clip.trim.set(...part);
      this.publish();
    } else {
      this.trim.hush();
      this.importer.repair(clip, fix);
    }
  }

  undo(clip) {
    const { before } = clip;
    before.words = clip.words;
    this.server.forget(clip, { alone: true });
    this.clips.add(before, clip);
    this.publish();
  }

  // ---- files that the server has deleted

  // Called when the server is back. anew: it is a new process, which has none of the files, so they are uploaded again.
  async recover(anew) {
    for (const clip of this.clips.list) if (clip.found?.problem) clip.found = null;
    if (anew) await this.server.uploadAgain(this.clips.paths);
    else if (this.clips.list.length) this.publish();
  }

  // errors: of files that the server had deleted and does not take again.
  uploadedAgain(errors) {
    if (errors.length) this.view.refuse(failure(errors[0]));
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
      this.view.invite();
      this.view.unfoldScript();
    }
    this.publish();
  }

  // Removes a recording that is no clip.
  drop(recording) {
    this.clips.unsent = this.clips.unsent.filter((other) => other !== recording);
    if (!this.clips.list.length) this.view.invite();
    this.view.showClips();
  }

  removeAll(which = [...this.clips.list, ...this.clips.unsent]) {
    this.clips.unsent.filter((recording) => which.includes(recording)).forEach((recording) => this.drop(recording));
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
    if (!this.clips.list.length) this.view.invite();
    this.show();
  }

  show() {
    const { chosen, list } = this.clips;
    this.view.showClips();
    this.trim.show(chosen);
    this.showFindings();
    for (const clip of list) this.examiner.examine(clip);
  }

  // Shows the findings about the chosen clip's transcript and sound.
  showFindings() {
    const { chosen } = this.clips;
    const findings = chosen ? remarks(chosen) : [];
    this.transcript.show(chosen, findings);
    this.doctor.show(chosen, findings);
  }
}

export function mount(component) {
  const recorder = new Recorder(component);
  window.repriseRecorder = {
    all: () => recorder.importer.all(),
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
