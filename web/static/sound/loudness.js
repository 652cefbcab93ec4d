// The loudness of downloads: a choice stored in this browser, for all download menus.

import { create } from "../ui/elements.js";
import { remember, remembered } from "../ui/remember.js";
import { words } from "../ui/words.js";

const KEY = "reprise.loudness";
// A Map, because objects put keys that are numbers first.
const CHOICES = new Map([
  ["", "player.loudness_own"],
  ["16", "player.loudness_podcast"],
  ["20", "player.loudness_book"],
  ["23", "player.loudness_broadcast"],
]);

function chosen() {
  const value = remembered(KEY) ?? "";
  return CHOICES.has(value) ? value : "";
}

function choose(value) {
  remember(KEY, value);
  for (const select of document.querySelectorAll(".rp-lufs")) select.dispatchEvent(new CustomEvent("reprise:loudness"));
}

// A labelled select. All selects on the page show the same choice. changed(): called when it changes.
export function loudnessChoice(changed = () => {}) {
  const options = [...CHOICES].map(([value, key]) => create("option", { value, text: words(key) }));
  const show = () => {
    select.value = chosen();
    changed();
  };
  const select = create("select", { class: "rp-lufs", onchange: () => choose(select.value), "onreprise:loudness": show });
  select.append(...options);
  select.value = chosen();
  return create("label", { class: "rp-lufs-label", text: words("player.loudness") }, select);
}

// The address of a file at the chosen loudness.
export const atLoudness = (url) => (chosen() ? `${url}?lufs=${chosen()}` : url);

export const isLoud = () => chosen() !== "";
