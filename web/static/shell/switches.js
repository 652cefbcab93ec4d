// Switches for the theme and the language, which default to the browser's. The server reads the language from a cookie
// (web/http/language.py).

import { dropGuards, hasUnsaved } from "../connection/leaving.js";
import { create } from "../ui/elements.js";
import { draw } from "../ui/icons.js";
import { remember, remembered } from "../ui/remember.js";
import { pageLanguage, words } from "../ui/words.js";

const THEME = "reprise.theme"; // "light" or "dark"
const COOKIE = "reprise_language";
const YEAR = 365 * 24 * 3600; // seconds

const chosen = () => remembered(THEME);

const isDark = () => document.body.classList.contains("dark");

function paint(theme) {
  document.body.classList.toggle("dark", theme === "dark");
}

// Replaces the browser's theme, which Gradio sets, by the chosen one. A theme in the URL takes precedence.
export function begin() {
  document.documentElement.lang = pageLanguage();
  if (new URL(location).searchParams.has("__theme")) return;
  paintChosen();
  new MutationObserver(paintChosen).observe(document.body, { attributeFilter: ["class"] });
}

function paintChosen() {
  const theme = chosen();
  if (theme && isDark() !== (theme === "dark")) paint(theme);
}

export function mount({ element, props }) {
  const theme = element.querySelector(".rp-theme");
  const language = element.querySelector("select");
  draw(element);

  function name() {
    theme.setAttribute("aria-pressed", isDark());
    const label = words("shell.dark");
    theme.setAttribute("aria-label", label);
    theme.title = words(isDark() ? "shell.to_light" : "shell.to_dark");
  }

  theme.onclick = () => {
    const wanted = isDark() ? "light" : "dark";
    remember(THEME, wanted);
    paint(wanted);
    name();
  };

  language.replaceChildren(
    ...Object.entries(props.languages).map(([value, text]) => create("option", { value, text, lang: value })),
  );
  language.value = pageLanguage();
  language.onchange = () => {
    if (hasUnsaved() && !confirm(words("shell.unsaved_lost"))) {
      language.value = pageLanguage();
      return;
    }
    dropGuards();
    const framed = window.top !== window ? "; SameSite=None; Secure; Partitioned" : "; SameSite=Lax";
    document.cookie = `${COOKIE}=${language.value}; path=/; max-age=${YEAR}${framed}`;
    location.reload();
  };
  document.documentElement.lang = pageLanguage();
  new MutationObserver(name).observe(document.body, { attributeFilter: ["class"] });
  name();
}
