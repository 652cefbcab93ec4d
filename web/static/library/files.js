// Files that the user adds to the library: voices to import, and pictures of voices.

import { words } from "../ui/words.js";

export const wholeFiles = (files) => [...files].map((file) => ({ file }));

// say(text, kind): shows a message.
export class ImportedFiles {
  constructor({ props, trigger, upload }, say) {
    Object.assign(this, { props, trigger, upload, say });
    this.sent = new Map(); // by the paths of their uploads
    this.pictures = new Map(); // the last choice of a picture, by the voice's id; null for none
  }

  // chosen: [{ file, names }]. names: new names of the voices to import, by position; undefined to import all unchanged.
  async importAll(chosen) {
    const uploaded = [];
    const refused = [];
    for (const { file, names } of chosen) {
      const path = await this.send(file);
      if (path) {
        uploaded.push({ path, name: file.name, names });
        this.sent.set(path, file);
      } else refused.push(this.refusal(file));
    }
    this.say(refused.join(" "), "bad");
    if (uploaded.length) this.trigger("import_files", { files: uploaded });
  }

  // Uploads files again, to import their voices under other names. chosen: [{ file: path of the first upload, names }]
  importAgain(chosen) {
    return this.importAll(chosen.map(({ file, names }) => ({ file: this.sent.get(file), names })));
  }

  // Changes a voice's picture, unless another one is chosen while it is uploaded. file: null to remove the picture.
  async sendPicture(id, file) {
    this.pictures.set(id, file);
    if (!file) return this.trigger("picture", { id, remove: true });
    const path = await this.send(file);
    if (file !== this.pictures.get(id)) return undefined;
    if (path) this.trigger("picture", { id, path, name: file.name });
    else this.say(this.refusal(file), "bad");
    return undefined;
  }

  // Uploads a file. Resolves to its path on the server, or to null.
  async send(file) {
    this.say(words("library.uploading", { name: file.name }), "busy");
    return this.isSmall(file) ? this.upload(file).then(({ path }) => path, () => null) : null;
  }

  isSmall(file) {
    return file.size <= this.props.max_mb * 2 ** 20;
  }

  // Why a file was not uploaded.
  refusal(file) {
    return words(this.isSmall(file) ? "library.upload_failed" : "library.too_large", { name: file.name, mb: this.props.max_mb });
  }
}
