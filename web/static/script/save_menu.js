// The menu that saves the open script: what goes into the files, and a button for each format.

import { CoverField } from "./cover.js";
import { downloadUrl } from "../shell/download.js";
import { SCRIPT_FORMATS, SOUND_FORMATS } from "../sound/formats.js";
import { atLoudness, loudnessChoice } from "../sound/loudness.js";
import { button, create } from "../ui/elements.js";
import { closeMenu } from "../ui/menus.js";
import { words } from "../ui/words.js";

export class SaveMenu {
  // node: a menu of ui/menus.js. editor: the ScriptEditor, which sends the requests.
  constructor(node, editor) {
    Object.assign(this, { node, editor, cover: new CoverField((...request) => editor.ask(...request)) });
    const formats = Object.entries({ ...SCRIPT_FORMATS, m4b: words("script.audio_book") }).map(([format, text]) =>
      button({ class: `rp-script-save-${format}`, text, onclick: () => this.save(format) }),
    );
    const zips = Object.entries(SOUND_FORMATS).map(([format, text]) => {
      const label = words("script.zip_as", { format: text });
      return button({ text, "aria-label": label, onclick: () => this.save(`${format}.zip`) });
    });
    const zip = create("p", { class: "rp-script-zip", text: words("script.zip") });
    // First what goes into the files: the buttons download them at once.
    node.querySelector(".rp-script-formats").append(this.cover.node, loudnessChoice(), ...formats, zip, ...zips);
    node.addEventListener("toggle", () => this.showCover());
  }

  // The cover is fetched when the menu is opened.
  showCover() {
    const { head } = this.editor.script ?? {};
    if (this.node.open && head) this.cover.show(head.cover);
  }

  async save(format) {
    closeMenu(this.node);
    const answer = await this.editor.ask("save", { format });
    if (answer) downloadUrl(atLoudness(answer.url));
  }
}
