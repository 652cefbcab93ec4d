// Files that the user adds to the library: voices to import, and pictures of voices.

import { partsOf } from "./archive_parts.js";
import { discardFiles, UploadCancelled } from "../connection/upload.js";
import { words } from "../ui/words.js";

export const wholeFiles = (files) => [...files].map((file) => ({ file }));

const BATCH = { bytes: 100 * 2 ** 20, files: 100 }; // uploaded before they are imported; the server keeps 300 MB of an address

// The files of one import, in batches that the server can keep, each of which takes seconds. Large archives are cut into parts,
// each of which begins a batch.
// chosen: [{ file, names }]. most: { bytes, files } of a part.
export async function batchesOf(chosen, most) {
  const batches = [];
  for (const { file, names } of chosen) {
    const parts = names ? [file] : await partsOf(file, most);
    for (const part of parts) {
      const batch = batches.at(-1);
      const bytes = batch?.reduce((sum, each) => sum + each.file.size, part.size);
      const fits = parts.length === 1 && batch?.length < BATCH.files && bytes <= BATCH.bytes;
      if (fits) batch.push({ file: part, names });
      else batches.push([{ file: part, names }]);
    }
  }
  return batches;
}

// The answers to the batches of one import in one. refused: why files were not uploaded. An answer without `imported` is to a failure.
function inOne(answers, refused) {
  const telling = answers.filter(({ imported }) => imported !== 0);
  const texts = (telling.length ? telling : answers.slice(-1)).map(({ text }) => text);
  const [lines, offers] = ["lines", "offers"].map((part) => answers.flatMap((answer) => answer[part] ?? []));
  const good = telling.length && telling.every(({ imported }) => imported) && !refused.size && !lines.length && !offers.length;
  return { text: [...texts, ...refused].join(" "), kind: good ? "good" : "bad", lines, offers };
}

export class ImportedFiles {
  // uploads: the UploadLines. say(text, kind, lines, offers): shows a message.
  constructor({ props, trigger, uploads, discard = discardFiles }, say) {
    Object.assign(this, { props, trigger, uploads, discard, say });
    this.sent = new Map(); // by the paths of their uploads
    this.pictures = new Map(); // the last choice of a picture, by the voice's id; null for none
    this.waiting = new Map(); // what to call with the answer to a batch, by the batch's id; with null if none will come
    this.batches = 0;
    this.deletions = 0; // of all data of the owner
  }

  // chosen: [{ file, names }]. names: new names of the voices to import, by position; undefined to import all unchanged.
  async importAll(chosen) {
    const [answers, refused, { deletions }] = [[], new Set(), this];
    const batches = await batchesOf(chosen, { bytes: this.props.max_mb * 2 ** 19, files: 200 });
    for (const [i, batch] of batches.entries()) {
      const files = await this.sendAll(batch, refused);
      if (deletions !== this.deletions) {
        this.discard((files ?? []).map(({ path }) => path));
        break;
      }
      const { text, kind, lines, offers } = inOne(answers, refused);
      if (!files) return this.say([text, words("connection.upload_cancelled")].filter(Boolean).join(" "), undefined, lines, offers);
      this.say(text, kind, lines, offers);
      if (!files.length) continue;
      const answer = await this.importBatch(files);
      if (deletions !== this.deletions) break;
      if (answer) answers.push(answer);
      else for (const { file } of batches.slice(i + 1).flat()) refused.add(this.refusal(file));
      const whole = inOne(answers, refused);
      if (answer || refused.size) this.say(whole.text, whole.kind, whole.lines, whole.offers);
      if (!answer) break;
    }
    return undefined;
  }

  // Uploads the files of a batch; adds to `refused` why some were not. Resolves to the fields of the others for the server, or
  // to null if the user cancelled it.
  async sendAll(batch, refused) {
    const uploaded = [];
    for (const { file, names } of batch) {
      const path = await this.send(file);
      if (path === undefined) {
        this.discard(uploaded.map((each) => each.path));
        return null;
      }
      if (path) {
        uploaded.push({ path, name: file.name, names });
        this.sent.set(path, file);
      } else refused.add(this.refusal(file));
    }
    return uploaded;
  }

  // Resolves to the answer, or to null if none will come.
  importBatch(files) {
    const id = String(++this.batches).padStart(32, "0");
    this.trigger("import_files", { id, files });
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  // Takes the answer to a batch; returns whether it is one.
  answered(answer) {
    const waiting = this.waiting.get(answer.id);
    waiting?.(answer);
    return this.waiting.delete(answer.id);
  }

  // Stops imports: the server has refused a batch, or has lost it.
  stop() {
    for (const resolve of this.waiting.values()) resolve(null);
    this.waiting.clear();
  }

  // Called when all data of the owner was deleted: ends imports, whose next batches would be stored.
  forget() {
    this.deletions++;
    this.pictures.clear();
    this.uploads.cancelAll();
    this.stop();
    this.say("");
  }

  // Uploads files again, to import their voices under other names. chosen: [{ file: path of the first upload, names }]
  importAgain(chosen) {
    return this.importAll(chosen.map(({ file, names }) => ({ file: this.sent.get(file), names })));
  }

  // Changes a voice's picture, unless another one is chosen while it is uploaded. file: null to remove the picture.
  async sendPicture(id, file) {
    this.pictures.set(id, file);
    this.uploads.cancel(id);
    if (!file) return this.trigger("picture", { id, remove: true });
    const path = await this.send(file, id);
    if (file !== this.pictures.get(id)) return undefined;
    if (path === undefined) this.say(words("connection.upload_cancelled"));
    else if (path) this.trigger("picture", { id, path, name: file.name });
    else this.say(this.refusal(file), "bad");
    return undefined;
  }

  // Uploads a file. use: as for UploadLines. Resolves to its path on the server, to null if it was not uploaded, or to undefined if
  // the user cancelled it.
  async send(file, use) {
    this.say(words("library.uploading", { name: file.name }), "busy");
    if (!this.isSmall(file)) return null;
    try {
      return (await this.uploads.send(file, use)).path;
    } catch (error) {
      return error instanceof UploadCancelled ? undefined : null;
    }
  }

  isSmall(file) {
    return file.size <= this.props.max_mb * 2 ** 20;
  }

  // Why a file was not uploaded.
  refusal(file) {
    return words(this.isSmall(file) ? "library.upload_failed" : "library.too_large", { name: file.name, mb: this.props.max_mb });
  }
}
