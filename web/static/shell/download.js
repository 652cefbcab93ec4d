// Saves files in the browser's downloads.

import { create } from "../ui/elements.js";

const READ = 60_000; // ms: the browser has read a blob by then

// url: of a file of the server, which sets its name.
export const downloadUrl = (url) => create("a", { href: url, download: "" }).click();

export function downloadBlob(blob, name) {
  const href = URL.createObjectURL(blob);
  create("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), READ);
}
