// The line of an upload: how much of the file is sent, and a button that cancels it.

import { button, create } from "../ui/elements.js";
import { words } from "../ui/words.js";

export class UploadLine {
  // upload: as `uploadFile`. opener: takes the focus of the button when the line goes.
  constructor(upload, opener) {
    Object.assign(this, { upload, opener, sending: null }); // sending: the AbortController of the last upload
    this.bar = create("progress", { class: "rp-progress", max: 1 });
    this.cancel = button({ class: "rp-quiet", text: words("library.cancel") });
    this.node = create("div", { class: "rp-sending rp-notice rp-busy", hidden: true }, this.bar, this.cancel);
  }

  // Whether the user has cancelled the last upload.
  get cancelled() {
    return this.sending.signal.aborted;
  }

  // Uploads a file. Resolves and rejects as `uploadFile`; the progress of an earlier upload is no longer shown.
  async send(file) {
    const sending = (this.sending = new AbortController());
    const show = (share) => sending === this.sending && this.show({ name: file.name, share, cancel: () => sending.abort() });
    show(0);
    this.node.scrollIntoView({ block: "nearest" });
    try {
      return await this.upload(file, show, sending.signal);
    } finally {
      if (sending === this.sending) this.show(null);
    }
  }

  // sent: of the file that is being uploaded, { name, share, cancel }; null for none.
  show(sent) {
    if (!sent && this.node.contains(document.activeElement)) this.opener().focus();
    this.node.hidden = !sent;
    if (!sent) return;
    this.bar.value = sent.share;
    this.bar.setAttribute("aria-label", words("library.uploading", { name: sent.name }));
    this.cancel.onclick = sent.cancel;
  }
}
