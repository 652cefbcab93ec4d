// The server functions for the clips (web/tabs/new_voice/clip_server.py), and the clips' files on the server.

import { isBeingSaved } from "../sent_form.js";
import { TaskQueue } from "../task_queue.js";
import { discardFiles } from "../../connection/upload.js";
import { words } from "../../ui/words.js";

const AT_ONCE = 2; // the server works on two clips at a time and refuses a fifth (web/tabs/new_voice/clip_server.py)

export class ClipServer {
  // functions: of the server, by name. uploads: an Uploads. clips: a Clips, whose files the page needs. uploadedAgain(errors):
  // files were uploaded again.
  constructor(functions, uploads, clips, uploadedAgain) {
    Object.assign(this, { functions, uploads, clips, uploadedAgain });
    this.requests = new TaskQueue(AT_ONCE);
    this.keeping = null; // a promise while `keepFiles` runs
  }

  // Calls a server function when its turn has come. Resolves to its answer, or to { problem }.
  ask(name, value) {
    return this.requests.run(() => this.askNow(name, value));
  }

  // The function is called again if the server had deleted the file of the clip that it is about.
  async askNow(name, value) {
    const answer = await this.call(name, value);
    const clip = answer.problem && this.clips.all.find(({ path }) => path === value.path);
    if (!clip) return answer;
    await this.keepFiles();
    return clip.path === value.path ? answer : this.call(name, { ...value, path: clip.path });
  }

  async call(name, value) {
    try {
      const answer = await this.functions[name](value); // undefined if the connection is lost
      return answer ?? { problem: words("connection.gone") };
    } catch {
      return { problem: words("clip.no_answer") };
    }
  }

  // The server's { seconds, peaks } of a clip.
  peaksOf(path) {
    return this.ask("clip_peaks", { path });
  }

  // Has the server delete a clip's file and, unless `alone`, those of the clips that it was repaired from. Saving a voice
  // deletes the files of its clips itself.
  forget(clip, { alone = false } = {}) {
    if (!isBeingSaved(clip.path)) this.call("forget_clip", { path: clip.path });
    if (clip.before && !alone) this.forget(clip.before);
  }

  async uploadAgain(paths) {
    if (!paths.length) return;
    const errors = await this.clips.uploadAgain(paths, (file) => this.uploads.send(file));
    this.uploadedAgain(errors);
  }

  // Tells the server that this page still needs its files, and uploads those again that it has deleted, because the page
  // was asleep for hours or the server needed the room.
  keepFiles() {
    this.keeping ??= this.keepFilesNow().finally(() => (this.keeping = null));
    return this.keeping;
  }

  async keepFilesNow() {
    const { paths } = this.clips;
    if (!paths.length) return;
    const { gone = [] } = await this.call("keep_clips", { paths });
    await this.uploadAgain(gone);
  }

  // Has the server delete all files. Called when the page is closed and cannot be restored.
  discardFiles() {
    discardFiles(this.clips.paths);
  }
}
