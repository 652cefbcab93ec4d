// Makes clips of files and recordings, one after the other: checks their size, uploads them, and reads their sound.

import { wavOf } from "./clip_playback.js";
import { Clip, MAX_CLIPS } from "./clips.js";
import { inspected, LongFile, MOST_MEGABYTES, MOST_MINUTES, secondsIn, storedFile } from "./sound_file.js";
import { TaskQueue } from "../task_queue.js";
import { failure } from "../uploads.js";
import { clock } from "../../ui/format.js";
import { words } from "../../ui/words.js";

export class ClipImporter {
  // limits: { longest, max_mb }, in seconds and MiB, of one clip. view: a RecorderView, which shows the progress. added(clip,
  // message): a clip was added.
  constructor({ clips, server, uploads, limits, view, added }) {
    Object.assign(this, { clips, server, uploads, limits, view, added });
    this.queue = new TaskQueue(1);
  }

  // Resolves to the clips and the recordings that are no clips, with what is being added now.
  all() {
    return this.queue.run(async () => [...this.clips.list, ...this.clips.unsent]);
  }

  addFiles(files) {
    const refused = [];
    const note = ({ name }, why) => why && refused.push(why.includes(name) ? why : words("clip.refused", { name, why }));
    for (const file of files) this.queue.run(async () => note(file, await this.add(file, { name: file.name })));
    // Of several files, report the refused ones at the end.
    if (files.length > 1) this.queue.run(async () => refused.length && this.view.refuse(refused.join(" ")));
  }

  // recording: { file, more }, as for `add`. One that is refused is kept, because nobody else has it.
  addRecording(recording) {
    this.view.say(words("clip.uploading"), "uploading");
    return this.queue.run(async () => {
      const why = await this.add(recording.file, recording.more);
      if (!why) return;
      this.clips.unsent.push(recording);
      this.view.showClips();
      this.view.refuse(`${why} ${words("clip.kept")}`);
    });
  }

  // Adds the clips of a saved voice, { url, name, words } each, when `before()` has resolved.
  addStored(clips, before) {
    this.queue.run(before);
    for (const clip of clips) this.queue.run(() => this.addStoredClip(clip));
  }

  async addStoredClip({ url, name, words: written }) {
    const file = await storedFile(url, `${name}.wav`);
    if (!file) return this.view.refuse(words("clip.refused", { name, why: words("player.unreachable") }));
    return this.add(file, { name, words: written });
  }

  // Replaces a clip by the part of its file that begins at `start`. Each part keeps its transcript.
  choosePart(clip, start) {
    const isThere = () => this.clips.list.includes(clip);
    return this.queue.run(async () => isThere() && this.addPart(clip.cutFrom, start, { name: clip.name, instead: clip }));
  }

  // Has the server repair the chosen part of a clip, which is replaced by the result.
  async repair(clip, fix) {
    this.view.say(words("clip.repairing"), "uploading");
    const { part } = clip;
    const { wav, problem } = await this.server.ask("repair_clip", { ...clip.value, fix });
    if (problem) return this.view.refuse(problem);
    if (clip.part !== part || !this.clips.list.includes(clip)) return this.view.invite(); // the part has changed, or the clip is gone
    const { name, recorded, words: written, wordsSpoken } = clip;
    const file = new File([wavOf(wav)], `${name}.wav`, { type: "audio/wav" });
    const message = words("clip.repaired", { name });
    return this.add(file, { name, message, instead: clip, before: clip, recorded, words: written, wordsSpoken });
  }

  // Why no other clip can be added, "" if one can. instead: the clip that it replaces, unless that was removed.
  noRoom(instead = null) {
    return this.clips.list.includes(instead) || !this.clips.full ? "" : this.view.refuse(words("clip.enough", { number: MAX_CLIPS }));
  }

  // more: properties of the Clip. Resolves to the reason why the file was refused, else "".
  async add(file, { name, message = words("clip.ready", { name }), instead = null, ...more }) {
    const full = this.noRoom(instead);
    if (full) return full;
    this.view.say(words("clip.uploading"), "uploading");
    const length = await secondsIn(file);
    const { longest, max_mb } = this.limits;
    const isLong = LongFile.is(length, longest);
    const limit = isLong ? MOST_MEGABYTES : max_mb;
    if (file.size > limit * 2 ** 20) return this.view.refuse(words("clip.too_large", { name, limit }));
    if (isLong) return this.addPart(new LongFile(file, length, longest), 0, { name });
    let path;
    try {
      path = await this.upload(file);
    } catch (error) {
      return this.view.refuse(failure(error));
    }
    try {
      const heard = await inspected(file, length, () => this.server.peaksOf(path));
      return this.place(new Clip({ file, path, name, ...more, ...heard }), instead, message);
    } catch (error) {
      this.server.call("forget_clip", { path });
      return this.view.refuse(error.message);
    }
  }

  // Adds the part of a long file at `start` as a clip. Resolves as `add` does.
  async addPart(whole, start, { name, instead = null }) {
    const { longest } = this.limits;
    if (whole.tooLong) return this.view.refuse(words("clip.too_long_to_cut", { name, minutes: MOST_MINUTES }));
    this.view.say(words("clip.cutting", { name }), "uploading");
    let file;
    try {
      file = await whole.cut(start);
    } catch {
      return this.view.refuse(words("clip.too_long", { name, longest }));
    }
    const [from, to, all] = [start, start + longest, whole.seconds].map(clock);
    const message = words("clip.part", { name, all, from, to });
    return this.add(file, { name, message, instead, words: whole.transcripts.get(start), cutFrom: whole, cutAt: start });
  }

  async upload(file) {
    const sending = new AbortController();
    this.view.offerCancel(sending);
    try {
      return await this.uploads.send(file, (share) => this.view.sending(share), sending.signal);
    } finally {
      this.view.offerCancel(null);
    }
  }

  // Adds a clip in place of another one, which may have been removed meanwhile.
  place(clip, instead, message) {
    const replaced = this.clips.list.includes(instead) ? instead : null;
    if (instead && !replaced && (clip.cutFrom || clip.before)) return this.discard(clip); // only a recording is kept
    if (replaced && replaced !== clip.before) this.server.forget(replaced);
    replaced?.cutFrom?.transcripts.set(replaced.cutAt, replaced.words);
    this.clips.add(clip, replaced);
    this.added(clip, message);
    return "";
  }

  // Forgets the upload of a clip that is not added.
  discard({ path }) {
    this.server.call("forget_clip", { path });
    this.view.invite();
    return "";
  }
}
