// The result of checking a take with a recogniser: its text with the wrong words marked.

import { button, create } from "../ui/elements.js";
import { words } from "../ui/words.js";

// heard: see web/ui/hearing_view.py; null if the take was not checked. status: text about a check under way, "" for none. repair():
// has the wrong words spoken again; null if that is not possible.
export function heardLines(heard, status, repair) {
  const lines = [];
  if (heard?.right) lines.push(create("p", { class: "rp-heard-right", text: words("script.heard_right") }));
  else if (heard?.parts.length) {
    const text = heard.parts.map(([part, wrong]) => (wrong ? create("mark", { text: part }) : document.createTextNode(part)));
    const message = words(heard.heard_text ? "script.heard_wrong" : "script.heard_nothing", { words: heard.heard_text });
    lines.push(create("p", {}, ...text), create("p", { class: "rp-heard-message", text: message }));
  }
  if (status) lines.push(create("p", { class: "rp-heard-message", text: status }));
  else if (heard && !heard.right && repair) lines.push(button({ class: "rp-heard-repair", text: words("script.repair"), onclick: repair }));
  return lines;
}
