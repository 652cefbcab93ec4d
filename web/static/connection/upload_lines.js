// The lines of uploads: the name of a file, how much of it is sent, and a button that cancels it.

import { button, create } from "../ui/elements.js";
import { words } from "../ui/words.js";

export class UploadLines {
  // upload: as `uploadFile`. opener(): takes the focus of a button when its line goes.
  constructor(upload, opener) {
    Object.assign(this, { upload, opener, sending: new Map() }); // AbortControllers, by what the files are for
    this.node = create("div", { class: "rp-uploads" });
  }

  // Uploads a file. Resolves and rejects as `uploadFile`. use: what the file is for, if the last one for it counts: an earlier one
  // is cancelled.
  async send(file, use = Symbol("its own")) {
    this.cancel(use);
    const sending = new AbortController();
    this.sending.set(use, sending);
    const bar = create("progress", { class: "rp-progress", max: 1, value: 0, "aria-label": words("library.uploading", { name: file.name }) });
    const cancel = button({ class: "rp-quiet", text: words("library.cancel"), onclick: () => sending.abort() });
    const line = create("div", { class: "rp-sending rp-notice rp-busy" }, create("span", { text: file.name }), bar, cancel);
    this.node.append(line);
    line.scrollIntoView({ block: "nearest" });
    try {
      return await this.upload(file, (share) => (bar.value = share), sending.signal);
    } finally {
      if (this.sending.get(use) === sending) this.sending.delete(use);
      if (line.contains(document.activeElement)) this.opener().focus();
      line.remove();
    }
  }

  // Cancels the upload of the last file for this use.
  cancel(use) {
    this.sending.get(use)?.abort();
  }

  cancelAll() {
    for (const sending of this.sending.values()) sending.abort();
  }
}
