// A voice's card, shown or being edited.

import { copyLink } from "../draft/deep_links.js";
import { textOf } from "./form/form_fields.js";
import { languageName } from "./voices.js";
import { button, create } from "../ui/elements.js";
import { joined, lengthOf, secondsOf } from "../ui/format.js";
import { drawing } from "../ui/icons.js";
import { portraitOf } from "./portraits.js";
import { pageLanguage, words } from "../ui/words.js";

const LANGUAGES = (
  "ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nb nl pl pt ro ru sk sl sr sv sw ta th tr uk " +
  "ur vi yue zh"
).split(" ");
const ICONS = { edit: "edit", duplicate: "copy", clips: "mic", export: "download", remove: "trash", address: "link" };

const day = (iso) => new Intl.DateTimeFormat(pageLanguage(), { dateStyle: "medium" }).format(new Date(iso));

export const act = (name, text, more = {}) => button({ "data-act": name, text, ...more });

// A less frequent action: an icon button, with its name as tooltip and for screen readers.
function tool(name, word, more = {}) {
  const button = act(name, undefined, { class: "rp-lib-tool", title: word, "aria-label": word, ...more });
  button.append(drawing(ICONS[name]));
  return button;
}

function hearButton(voice) {
  const label = words("library.hear", { name: voice.name });
  const button = act("hear", undefined, { class: "rp-lib-hear", "aria-label": label, title: label, "aria-pressed": "false" });
  button.append(portraitOf(voice), drawing("play"), drawing("pause"));
  return button;
}

function nameHeading(voice) {
  const name = voice.shared
    ? create("span", { text: voice.name })
    : act("name", voice.name, { class: "rp-lib-card-name", title: words("library.rename") });
  return create("h4", { id: `rp-lib-voice-${voice.id}` }, name);
}

const about = (voice) => joined([languageName(voice.language, pageLanguage()), secondsOf(voice.seconds, pageLanguage())]);

function past(voice) {
  const facts = [
    voice.shared ? null : words("library.made", { date: day(voice.made) }),
    voice.times ? words("library.used", { time: lengthOf(voice.spoken, pageLanguage()) }) : null,
  ].filter(Boolean);
  const agreed = consent(voice);
  return [
    facts.length && create("p", {}, ...facts.flatMap((text, i) => [i ? " · " : "", create("span", { text })])),
    agreed && create("p", { text: agreed }),
  ].filter(Boolean);
}

function consent(voice) {
  if (voice.shared) return "";
  return voice.who ? words("library.agreed", { who: voice.who, date: day(voice.agreed) }) : words("library.not_agreed");
}

function link(voice) {
  const word = words("library.export", { name: voice.name });
  const attributes = { href: voice.file, download: `${voice.name}.voice`, title: word, "aria-label": word };
  return create("a", { class: "rp-lib-tool", "data-act": "export", ...attributes }, drawing(ICONS.export));
}

function tools(voice) {
  const { id, name } = voice;
  const address = tool("address", `${words("links.copy")}: ${name}`, { onclick: () => copyLink("voice", id) });
  const copies = [tool("duplicate", words("library.duplicate", { name })), link(voice), address];
  if (voice.shared) return copies;
  const edit = tool("edit", words("library.edit", { name }));
  const clips = voice.changeable ? [tool("clips", words("library.change_clips", { name }))] : [];
  return [edit, ...clips, ...copies, tool("remove", words("library.delete", { name }), { class: "rp-lib-tool rp-danger" })];
}

export function shownCard(voice) {
  const lines = past(voice);
  const tags = voice.tags.map((tag) => create("li", { text: tag }));
  const parts = [
    create("div", { class: "rp-lib-card-head" }, hearButton(voice),
      create("div", {}, nameHeading(voice), create("p", { text: about(voice) }))),
    voice.description && create("p", { class: "rp-lib-card-about", text: voice.description }),
    tags.length && create("ul", { class: "rp-lib-tags", "aria-label": words("library.tags") }, ...tags),
    lines.length && create("div", { class: "rp-lib-past" }, ...lines),
    create("div", { class: "rp-lib-card-acts" }, act("speak_with", words("library.speak_with"), { class: "rp-lib-main" }),
      create("span", { class: "rp-lib-card-tools" }, ...tools(voice))),
  ];
  return create("article", { class: "rp-lib-card", "aria-labelledby": `rp-lib-voice-${voice.id}` }, ...parts.filter(Boolean));
}

// ---- the form; the names of its fields are those of the voice's properties

function field(name, label, input, hint) {
  const id = `rp-lib-field-${name}`;
  input.id = id;
  input.name = name;
  const parts = [create("label", { for: id, text: label }), input];
  if (hint) {
    input.setAttribute("aria-describedby", `${id}-hint`);
    parts.push(create("small", { id: `${id}-hint`, text: hint }));
  }
  return create("div", { class: "rp-lib-field" }, ...parts);
}

// The options for a choice of languages, by name. none: the text for no language. chosen: offered even if it is not usual.
export function languageOptions(none, chosen = "") {
  const named = [...new Set([...LANGUAGES, chosen])].filter(Boolean).map((code) => [code, languageName(code, pageLanguage())]);
  named.sort(([, one], [, other]) => one.localeCompare(other, pageLanguage()));
  return [["", none], ...named].map(([value, text]) => create("option", { value, text }));
}

function chooseLanguage(select, chosen) {
  select.replaceChildren(...languageOptions(words("library.unknown_language"), chosen));
  select.value = chosen;
  return select;
}

const nameInput = (voice) => create("input", { type: "text", maxlength: 80, value: voice.name, autocomplete: "off" });

// The picture is changed at once, not with the rest of the form.
function pictureField(voice) {
  const choose = act("picture", words("library.picture"));
  const remove = act("no_picture", words("library.no_picture"), { hidden: !voice.picture });
  const input = create("input", { type: "file", accept: "image/jpeg,image/png,image/webp", hidden: true });
  return create("div", { class: "rp-lib-picture" }, portraitOf(voice), choose, remove, input);
}

export function editedCard(voice) {
  const description = create("textarea", { rows: 3, maxlength: 2000 });
  description.value = voice.description;
  const tags = create("input", { type: "text", value: textOf(voice, "tags"), autocomplete: "off" });
  return create(
    "form", { class: "rp-lib-card rp-lib-card-form", "aria-label": words("library.edit", { name: voice.name }), novalidate: true },
    pictureField(voice),
    field("name", words("library.name"), nameInput(voice)),
    field("language", words("library.language"), chooseLanguage(create("select"), voice.language)),
    field("description", words("library.description"), description),
    field("tags", words("library.tags"), tags, words("library.tags_hint")),
    create("p", { class: "rp-notice rp-bad", role: "alert", hidden: true }),
    create("div", { class: "rp-lib-card-acts" },
      create("button", { type: "submit", class: "rp-lib-main", "data-act": "save", text: words("library.save") }),
      act("cancel", words("library.cancel"))),
  );
}

// The card with only its name editable.
export function renamedCard(voice) {
  const card = shownCard(voice);
  const input = nameInput(voice);
  input.name = "name";
  input.setAttribute("aria-label", words("library.rename"));
  const form = create("form", { class: "rp-lib-card-rename", novalidate: true }, input);
  card.querySelector("h4").replaceChildren(form);
  card.querySelector(".rp-lib-card-head > div").append(create("p", { class: "rp-notice rp-bad", role: "alert", hidden: true }));
  return card;
}

// Shows a voice's properties in an open form. names: of the fields.
export function fillFields(form, names, voice) {
  for (const name of names) {
    const field = form.elements[name];
    if (name === "language") chooseLanguage(field, voice.language);
    else field.value = textOf(voice, name);
  }
}
