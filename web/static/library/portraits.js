// Portraits of voices: a picture of their own, or initials on the voice's colour. All parts of the page give a voice the same colour.

import { hues } from "./voices.js";
import { Batches } from "../connection/batches.js";
import { create } from "../ui/elements.js";

let colours = new Map();
let names = new Map();
let pictures = new Map(); // the pictures' ids, by the voices' ids
const awaiting = new Map(); // the voices of portraits whose picture has not arrived, by node
let connect;
const connected = new Promise((resolve) => { connect = resolve; });
const loaded = new Batches(async (items) => (await connected)(items), () => {
  for (const [node, voice] of [...awaiting]) showPortrait(node, voice);
});

// request(items): resolves to the data URLs of pictures by item, a voice's id followed by its picture's, or to null.
export const connectPictures = (request) => connect(request);

// voices: all of the owner's, each with `id`, `name`, `made` and `picture`, its id or "".
export function learnColours(voices) {
  colours = hues(voices, colours);
  names = new Map(voices.map(({ id, name }) => [id, name]));
  // A picture that was removed before it was fetched has no value; the same one may be chosen again.
  for (const { id, picture } of voices) if (pictures.get(id) !== picture) loaded.forget(id + picture);
  pictures = new Map(voices.map(({ id, picture }) => [id, picture]));
  return colours;
}

const LETTER = /[\p{L}\p{N}]/u;
const EMOJI = /\p{Extended_Pictographic}|\p{Emoji_Presentation}/u;

// "Anna Maria van Dam" → "AD"; "小林" → "小"; a name of emoji → the first one.
export function initialsOf(name) {
  const letters = name.split(/\s+/).flatMap((word) => [...word].find((sign) => LETTER.test(sign)) ?? []);
  if (letters.length) return [...new Set([0, letters.length - 1])].map((at) => letters[at]).join("").toLocaleUpperCase();
  return [...new Intl.Segmenter().segment(name)].find(({ segment }) => EMOJI.test(segment))?.segment ?? "?";
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
  const known = pictures.get(id);
  const picture = known && loaded.of(id + known);
  if (known && !picture) awaiting.set(node, { id, name });
  else awaiting.delete(node);
  node.toggleAttribute("data-picture", Boolean(picture));
  node.style.backgroundImage = picture ? `url("${picture}")` : "";
  node.textContent = name && !picture ? initialsOf(name) : "";
}

export function portraitOf(voice) {
  const node = create("span", { "aria-hidden": "true" });
  showPortrait(node, voice);
  return node;
}
