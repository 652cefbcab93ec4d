// The page's words in the visitor's language. The page's script, one for each language (web/ui/modules.py), calls `useWords`
// before any component is mounted.

let texts = {};
let english = {};
let language = ""; // of the texts, which the visitor may have chosen

// own: text by key in the visitor's language. examples: the example texts in English.
export function useWords(own, examples = {}, code = "") {
  texts = own;
  english = examples;
  language = code;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

// A text for the inside of a line. Arabic or Hebrew is isolated: a browser would move a number that follows in front of it.
export const isolated = (text) => (RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text);

// Numbers are formatted for the language. Values that only look like numbers, such as seeds, are passed as text.
// Arrays of texts are written as lists.
function shown(value) {
  if (Array.isArray(value)) return value.reduce((first, next) => words("list.more", { first, next }));
  return typeof value === "number" ? new Intl.NumberFormat(pageLanguage()).format(value) : isolated(value);
}
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => shown(values[name]));

export const words = (key, values = {}) => filled(texts[key], values);

// An example text in English, which is available in every language.
export const inEnglish = (key) => english[key];

// Gradio writes the browser's language into the document.
export const pageLanguage = () => language || globalThis.document?.documentElement.lang || "en";

// Gradio translates the labels of its own components with these words. Without an entry for the browser's language it
// looks under "en".
export function translateGradio(config, language) {
  config.i18n_translations = { en: texts, [language]: texts };
}

// Fills in the texts of markup: data-say for text; data-say-label, -title and -placeholder for attributes.
export function translate(element) {
  const prompts = element.querySelectorAll("[data-say-placeholder]");
  for (const node of prompts) node.placeholder = words(node.dataset.sayPlaceholder);
  for (const node of element.querySelectorAll("[data-say]")) node.textContent = words(node.dataset.say);
  for (const node of element.querySelectorAll("[data-say-label]")) node.setAttribute("aria-label", words(node.dataset.sayLabel));
  for (const node of element.querySelectorAll("[data-say-title]")) node.title = words(node.dataset.sayTitle);
}
