// Accepts a dropped or chosen file, and shows the server's findings about its origin. Of several files, the last one counts.

import { UploadLines } from "../connection/upload_lines.js";
import { create } from "../ui/elements.js";
import { words } from "../ui/words.js";

const MEGABYTE = 1 << 20;
const VERDICTS = { ours: "check.ours", marked: "check.marked", not_ours: "check.not_ours" };

export function mount({ element, props, trigger, upload, watch }) {
  const area = element.querySelector(".rp-check-drop");
  const input = element.querySelector("input");
  const result = element.querySelector(".rp-check-result");
  const choose = element.querySelector(".rp-check-choose");
  const uploads = new UploadLines(upload, () => choose);
  const dragged = (over) => area.classList.toggle("rp-over", over);

  const say = (...children) => result.replaceChildren(...children);

  let checks = 0; // that were asked for
  let last = null; // the file that was chosen last
  let asked = 0; // number of the last check whose answer is awaited; 0 for none. Other answers are late

  async function check(file) {
    if (!file) return;
    last = file;
    asked = 0;
    uploads.cancel("check");
    if (file.size > props.max_mb * MEGABYTE) return say(create("p", { text: words("library.too_large", { name: file.name, mb: props.max_mb }) }));
    say(create("p", { text: words("check.checking", { name: file.name }) }));
    const sent = await uploads.send(file, "check").catch(({ message }) => ({ message }));
    if (file !== last) return;
    if (!sent.path) return say(create("p", { text: sent.message || words("library.upload_failed", { name: file.name }) }));
    asked = checks += 1;
    return trigger("check", { path: sent.path, name: file.name, number: asked });
  }

  function show({ name, verdict, lines, number } = {}) {
    if (!verdict || number !== asked) return;
    asked = 0;
    const title = verdict === "bad" ? [] : [create("strong", { text: words(VERDICTS[verdict]) })];
    const about = create("p", { class: "rp-check-verdict", "data-verdict": verdict }, ...title, create("span", { text: name }));
    say(about, create("ul", {}, ...lines.map((line) => create("li", { text: line }))));
  }

  result.before(uploads.node);
  choose.onclick = () => input.click();
  input.onchange = () => {
    check(input.files[0]);
    input.value = "";
  };
  for (const kind of ["dragenter", "dragover"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      dragged(true);
    });
  }
  area.addEventListener("dragleave", () => dragged(false));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    dragged(false);
    check(event.dataTransfer.files[0]);
  });
  watch("value", () => show(props.value ?? undefined));
  for (const event of ["gone", "refused"]) document.addEventListener(`reprise:${event}`, () => asked && say());
}
