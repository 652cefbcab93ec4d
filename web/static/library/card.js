// A voice's card, shown or being edited. Needs logic.js and words.js.

const LANGUAGES = (
  "ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nb nl pl pt ro ru sk sl sr sv sw ta th tr uk " +
  "ur vi yue zh"
).split(" ");
const READ_IN = document.documentElement.lang || "en";

// make("p", { class: "rp-x", text: "…" }, child, …): an element; values are never read as markup.
function make(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  if (text !== undefined) node.textContent = text;
  node.append(...children.filter(Boolean));
  return node;
}

const day = (iso) => new Intl.DateTimeFormat(READ_IN, { dateStyle: "medium" }).format(new Date(iso));

const act = (name, text, more = {}) => make("button", { type: "button", "data-act": name, text, ...more });

function hearButton(voice) {
  const { strokes, hue } = portrait(voice.id);
  const label = words("library.hear", { name: voice.name });
  const button = act("hear", undefined, { class: "rp-lib-hear", "aria-label": label, title: label, "aria-pressed": "false" });
  button.style.setProperty("--hue", hue);
  const bars = strokes.map((height) => {
    const bar = make("i");
    bar.style.height = `${Math.round(height * 100)}%`;
    return bar;
  });
  button.append(make("span", { class: "rp-lib-strokes", "aria-hidden": "true" }, ...bars));
  button.append(make("span", { class: "rp-lib-hear-mark", "aria-hidden": "true" }));
  return button;
}

function nameHeading(voice) {
  const name = voice.shared
    ? make("span", { text: voice.name })
    : act("name", voice.name, { class: "rp-lib-card-name", title: words("library.rename") });
  return make("h4", { id: `rp-lib-voice-${voice.id}` }, name);
}

const about = (voice) =>
  [languageName(voice.language, READ_IN), inUnit(voice.seconds, "second", READ_IN, 1)].filter(Boolean).join(" · ");

function past(voice) {
  const made = make("span", { text: words("library.made", { date: day(voice.made) }) });
  const used = voice.times ? words("library.used", { time: timeIn(voice.spoken, READ_IN) }) : words("library.unused");
  return make("p", { class: "rp-lib-past" }, !voice.shared && made, make("span", { text: used }));
}

function consent(voice) {
  if (voice.shared) return "";
  return voice.who ? words("library.agreed", { who: voice.who, date: day(voice.agreed) }) : words("library.not_agreed");
}

function link(voice) {
  return make("a", { href: voice.file, download: `${voice.name}.voice`, "data-act": "export", text: words("library.export") });
}

function shownCard(voice) {
  const tags = voice.tags.map((tag) => make("li", { text: tag }));
  return make(
    "article", { class: "rp-lib-card", "aria-labelledby": `rp-lib-voice-${voice.id}` },
    make("div", { class: "rp-lib-card-head" }, hearButton(voice),
      make("div", {}, nameHeading(voice), make("p", { text: about(voice) }), past(voice))),
    voice.description && make("p", { class: "rp-lib-card-about", text: voice.description }),
    tags.length && make("ul", { class: "rp-lib-tags", "aria-label": words("library.tags") }, ...tags),
    consent(voice) && make("p", { class: "rp-lib-card-consent", text: consent(voice) }),
    make("div", { class: "rp-lib-card-acts" }, act("speak_with", words("library.speak_with"), { class: "rp-lib-main" }),
      make("div", { class: "rp-lib-more" },
        !voice.shared && act("edit", words("library.edit")), act("duplicate", words("library.duplicate")), link(voice),
        !voice.shared && act("remove", words("library.delete")))),
  );
}

// ---- the form; its marks are the names of what may be changed

function field(name, said, input, hint) {
  const id = `rp-lib-field-${name}`;
  input.id = id;
  input.name = name;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  const label = make("label", { for: id, text: said });
  return make("div", { class: "rp-lib-field" }, label, input, hint && make("small", { id: `${id}-hint`, text: hint }));
}

function languages(chosen) {
  const known = LANGUAGES.includes(chosen) || !chosen ? LANGUAGES : [...LANGUAGES, chosen];
  const named = known.map((code) => [code, languageName(code, READ_IN)]);
  named.sort(([, one], [, other]) => one.localeCompare(other, READ_IN));
  const options = [["", words("library.unknown_language")], ...named];
  const select = make("select", {}, ...options.map(([value, text]) => make("option", { value, text })));
  select.value = chosen;
  return select;
}

const nameInput = (voice) => make("input", { type: "text", maxlength: 80, value: voice.name, autocomplete: "off" });

function editedCard(voice) {
  const description = make("textarea", { rows: 3, maxlength: 2000 });
  description.value = voice.description;
  const tags = make("input", { type: "text", value: voice.tags.join(", "), autocomplete: "off" });
  return make(
    "form", { class: "rp-lib-card rp-lib-card-form", "aria-label": words("library.edit_one", { name: voice.name }), novalidate: true },
    field("name", words("library.name"), nameInput(voice)),
    field("language", words("library.language"), languages(voice.language)),
    field("description", words("library.description"), description),
    field("tags", words("library.tags"), tags, words("library.tags_hint")),
    make("p", { class: "rp-notice rp-bad", role: "alert", hidden: true }),
    make("div", { class: "rp-lib-card-acts" },
      make("button", { type: "submit", class: "rp-lib-main", "data-act": "save", text: words("library.save") }),
      act("cancel", words("library.cancel"))),
  );
}

// The card with its name alone open.
function renamedCard(voice) {
  const card = shownCard(voice);
  const input = nameInput(voice);
  input.name = "name";
  input.setAttribute("aria-label", words("library.rename"));
  const form = make("form", { class: "rp-lib-card-rename", novalidate: true }, input);
  card.querySelector("h4").replaceChildren(form);
  card.querySelector(".rp-lib-card-head > div").append(make("p", { class: "rp-notice rp-bad", role: "alert", hidden: true }));
  return card;
}

// What a form says that differs from the voice, as the server is told of it.
function changes(form, voice) {
  const given = {};
  for (const name of ["name", "language", "description"]) {
    const value = form.elements[name]?.value.trim();
    if (value !== undefined && value !== voice[name]) given[name] = value;
  }
  const tags = form.elements.tags && tagsOf(form.elements.tags.value);
  if (tags && tags.join("\n") !== voice.tags.join("\n")) given.tags = tags;
  return given;
}
