// The cover of the audiobook: the stored picture, and buttons to replace and remove it.

import { button, create } from "../ui/elements.js";
import { words } from "../ui/words.js";

const SIDE = 1_000; // pixels at most
const QUALITY = 0.85;

export class CoverField {
  // ask(what, values, how): sends a request about the open script.
  constructor(ask) {
    const choose = async () => {
      const [file] = this.input.files;
      this.input.value = "";
      // If the file is not a picture, "." is sent, which the server refuses with a message.
      if (file) ask("set_cover", { text: (await scaled(file)) ?? "." });
    };
    const remove = () => {
      this.choose.focus();
      ask("set_cover");
    };
    this.ask = ask;
    this.picture = create("img", { class: "rp-script-cover", alt: "" });
    this.input = create("input", { type: "file", accept: "image/*", hidden: true, onchange: choose });
    this.choose = button({ text: words("library.picture"), onclick: () => this.input.click() });
    this.remove = button({ text: words("library.no_picture"), onclick: remove });
    const parts = [create("p", { text: words("script.cover") }), this.picture, this.choose, this.remove, this.input];
    this.node = create("div", { class: "rp-script-cover-field", role: "group", "aria-label": words("script.cover") }, ...parts);
  }

  // mark: of the stored picture, null without one. The picture is fetched if it is not the one that is shown.
  async show(mark) {
    if (mark === this.mark) return;
    this.mark = mark;
    this.picture.hidden = this.remove.hidden = mark === null;
    this.picture.removeAttribute("src");
    const answer = mark && (await this.ask("cover", {}, { quiet: true }));
    if (mark === null || mark !== this.mark) return;
    if (answer) this.picture.src = answer.cover;
    else this.mark = undefined; // it is asked for again
  }
}

// Resolves to a JPEG in base64, scaled down to be sent with a request; null if the file is not a picture.
async function scaled(file) {
  try {
    const picture = await createImageBitmap(file);
    const share = Math.min(1, SIDE / Math.max(picture.width, picture.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(picture.width * share));
    canvas.height = Math.max(1, Math.round(picture.height * share));
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", QUALITY).split(",")[1];
  } catch {
    return null;
  }
}
