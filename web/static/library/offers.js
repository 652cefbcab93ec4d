// A form below an import's answer, to choose names for voices whose own names are taken.

import { create } from "../ui/elements.js";
import { words } from "../ui/words.js";

// offers: [{ line, file, voice, free }] from the server. onimport is called with [{ file, names: { [voice]: name } }],
// with each file once.
export function offerForm(offers, onimport) {
  const rows = offers.map((offer) => {
    const input = create("input", { type: "text", required: true, maxlength: 200, "aria-label": words("library.other_name") });
    input.value = offer.free;
    return { offer, input };
  });
  const items = rows.map(({ offer, input }) => create("li", {}, create("span", { text: offer.line }), input));
  const label = words(offers.length > 1 ? "library.import_all_as" : "library.import_as");
  const form = create("form", { class: "rp-lib-offers" }, create("ul", {}, ...items), create("button", { type: "submit", text: label }));
  form.onsubmit = (event) => {
    event.stopPropagation(); // library.js handles the forms of voices
    event.preventDefault();
    onimport(byFile(rows.map(({ offer, input }) => ({ ...offer, name: input.value.trim() }))));
  };
  return form;
}

export function byFile(chosen) {
  const files = new Map();
  for (const { file, voice, name } of chosen) files.set(file, { ...files.get(file), [voice]: name });
  return [...files].map(([file, names]) => ({ file, names }));
}
