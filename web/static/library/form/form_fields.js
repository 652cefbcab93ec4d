// The fields of a voice's form: those that the user has changed, and those that were changed elsewhere meanwhile.

import { tagsOf } from "../voices.js";

const FIELDS = ["name", "language", "description", "tags"]; // also the names of the voice's properties

const fieldsOf = (form) => FIELDS.filter((name) => form.elements[name]);
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// A property as the text of its field.
export const textOf = (voice, name) => (name === "tags" ? voice.tags.join(", ") : voice[name]);

function valueOf(form, name) {
  const text = form.elements[name].value;
  return name === "tags" ? tagsOf(text) : text.trim();
}

// The form's differences from the voice that it shows, as the server expects them.
export function changes(form, voice) {
  const values = fieldsOf(form).map((name) => [name, valueOf(form, name)]);
  return Object.fromEntries(values.filter(([name, value]) => !same(value, voice[name])));
}

// The names of the fields that the user has not changed but that differ between `before`, which the form shows, and `voice`.
export function outdated(form, before, voice) {
  const changed = changes(form, before);
  return fieldsOf(form).filter((name) => !(name in changed) && !same(before[name], voice[name]));
}
