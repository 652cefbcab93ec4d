// Portraits of voices: a picture of their own, or initials on the voice's colour. All parts of the page give a voice the same colour.

import { hues } from "./voices.js";
import { create } from "../ui/elements.js";

let colours = new Map();
let names = new Map();
let pictures = new Map();

// voices: all of the owner's, each with `id`, `name`, `made` and `picture`, a URL or "".
export function learnColours(voices) {
  colours = hues(voices, colours);
  names = new Map(voices.map(({ id, name }) => [id, name]));
  pictures = new Map(voices.map(({ id, picture }) => [id, picture]));
  return colours;
}

// "Anna Maria van Dam" → "AD"; "小林" → "小".
export function initialsOf(name) {
  const parts = name.trim().split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letters = [parts[0], parts.length > 1 ? parts.at(-1) : ""].map((word) => [...(word ?? "")][0] ?? "");
  return letters.join("").toLocaleUpperCase() || "?";
}

// A voice by its id or its name, as far as the page knows it; null for none.
export function voiceOf({ id = "", name = "" } = {}) {
  const known = names.has(id) ? id : [...names].find(([, other]) => other === name)?.[0];
  return known ? { id: known, name: names.get(known) } : name ? { id, name } : null;
}

// A voice that is unknown here, such as a deleted one, is grey.
export function showPortrait(node, { id = "", name = "" } = {}) {
  const hue = colours.get(id);
  node.classList.add("rp-portrait");
  node.toggleAttribute("data-grey", hue === undefined);
  node.style.setProperty("--hue", hue ?? 0);
  const picture = pictures.get(id);
  node.toggleAttribute("data-picture", Boolean(picture));
  node.style.backgroundImage = picture ? `url("${picture}")` : "";
  node.textContent = name && !picture ? initialsOf(name) : "";
}

export function portraitOf(voice) {
  const node = create("span", { "aria-hidden": "true" });
  showPortrait(node, voice);
  return node;
}
