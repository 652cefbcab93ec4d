// The history: one row an entry, kept as long as its entry is there, so that nothing jumps when the list comes anew.
// Given by the page: element, props, trigger, watch. Needs words.js, rows.js.

const LINKS_LAST = 8 * 60_000; // ms: a little less than the server's links
const SURE_FOR = 6000; // ms

const list = element.querySelector(".rp-entries");
const count = element.querySelector(".rp-history-count");
const more = element.querySelector(".rp-more");
const rows = new Map(); // by id
const language = document.documentElement.lang || "en";
let signed = 0;

class Row {
  constructor(entry) {
    this.entry = entry;
    this.node = made("li", "rp-entry");
    this.play = iconButton("rp-entry-play", PLAY_SHAPE);
    this.text = made("p", "rp-entry-text", { id: `rp-entry-${entry.id}`, textContent: entry.text });
    this.facts = made("p", "rp-entry-facts", { textContent: factsOf(entry, language) });
    this.details = made("p", "rp-entry-facts", { textContent: detailsOf(entry, language), hidden: true });
    this.open = made("button", "rp-entry-open", { type: "button" });
    this.star = iconButton("rp-entry-star", STAR_SHAPE);
    this.again = made("button", "rp-entry-again", { type: "button", textContent: words("history.again") });
    this.files = this.downloads();
    this.gone = made("button", "rp-entry-delete", { type: "button" });
    const said = made("div", "rp-entry-said");
    said.append(this.text, this.facts, this.details, this.actions());
    this.node.append(this.play, said, this.star);
    this.name();
    this.listen();
    this.calm();
    this.unfold(false);
    this.update(entry);
  }

  downloads() {
    const files = made("details", "rp-entry-files");
    files.append(made("summary", "", { textContent: words("history.download") }));
    const links = made("span", "rp-entry-links");
    this.links = Object.entries(FORMATS).map(([kind, name]) => {
      const link = made("a", "", { textContent: name });
      link.dataset.kind = kind;
      return link;
    });
    links.append(...this.links);
    files.append(links);
    return files;
  }

  actions() {
    const actions = made("div", "rp-entry-actions");
    actions.append(this.again, this.open, this.files, this.gone);
    return actions;
  }

  // Several buttons have the same words on them: each also says which entry it is about.
  name() {
    const about = firstWords(this.entry.text);
    for (const node of [this.again, this.open, this.gone]) node.setAttribute("aria-describedby", this.text.id);
    this.files.querySelector("summary").setAttribute("aria-describedby", this.text.id);
    this.play.dataset.about = about;
    this.star.setAttribute("aria-label", `${words("history.star")}: ${about}`);
  }

  listen() {
    const { entry } = this;
    this.play.addEventListener("click", () => this.toggle());
    this.star.addEventListener("click", () => this.setStar());
    this.again.addEventListener("click", () => trigger("again", { id: entry.id }));
    this.gone.addEventListener("click", () => this.remove());
    this.open.addEventListener("click", () => this.unfold(this.details.hidden));
  }

  update(entry) {
    this.entry = entry;
    this.star.setAttribute("aria-pressed", String(entry.starred));
    for (const link of this.links) {
      link.href = entry.links[link.dataset.kind];
      link.download = "";
    }
    this.sound(window.reprisePlayer?.playing === entry.id);
  }

  sound(sounding) {
    this.node.toggleAttribute("data-sounding", sounding);
    this.play.querySelector("path").setAttribute("d", sounding ? PAUSE_SHAPE : PLAY_SHAPE);
    this.play.setAttribute("aria-label", `${words(sounding ? "history.pause" : "history.play")}: ${this.play.dataset.about}`);
  }

  async toggle() {
    const played = await window.reprisePlayer.toggle(this.entry.id, this.entry.links.wav);
    if (!played) trigger("refresh", {}); // the link was too old, or the take is gone
  }

  setStar() {
    const starred = !this.entry.starred;
    this.update({ ...this.entry, starred });
    trigger("star", { id: this.entry.id, starred });
  }

  // Asks by the button itself: a second press deletes, and after a while it is the old button again.
  remove() {
    if (this.sure) {
      this.calm();
      window.reprisePlayer?.forget(this.entry.id);
      trigger("withdraw", { id: this.entry.id });
      return;
    }
    this.gone.textContent = words("history.delete_sure");
    this.gone.classList.add("rp-danger");
    this.sure = setTimeout(() => this.calm(), SURE_FOR);
  }

  calm() {
    clearTimeout(this.sure);
    this.sure = null;
    this.gone.textContent = words("history.delete");
    this.gone.classList.remove("rp-danger");
  }

  // All of the text, and what it takes to say it again.
  unfold(open) {
    this.node.toggleAttribute("data-open", open);
    this.details.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    this.open.textContent = words(open ? "history.fold" : "history.unfold");
  }
}

function show(value) {
  const entries = value?.entries ?? [];
  const ids = new Set(entries.map(({ id }) => id));
  const focused = [...rows.values()].find(({ node }) => node.contains(document.activeElement));
  const after = focused && !ids.has(focused.entry.id) ? next(focused, ids) : null;
  for (const [id, row] of rows) {
    if (ids.has(id)) continue;
    row.node.remove();
    rows.delete(id);
  }
  entries.forEach((entry, place) => {
    const row = rows.get(entry.id) ?? new Row(entry);
    rows.set(entry.id, row);
    row.update(entry);
    if (list.children[place] !== row.node) list.insertBefore(row.node, list.children[place] ?? null);
  });
  if (focused && !ids.has(focused.entry.id)) (after?.play ?? count).focus();
  tell(value, entries.length);
}

// The row that has the place of one that goes.
function next(row, ids) {
  const all = [...rows.values()].filter(({ entry }) => ids.has(entry.id) || entry.id === row.entry.id);
  const place = all.indexOf(row);
  return all[place + 1] ?? all[place - 1] ?? null;
}

function tell(value, shown) {
  signed = Date.now();
  count.tabIndex = -1;
  count.textContent = !value ? "" : shown ? words("history.count", { count: value.total }) : emptiness(value);
  more.hidden = !value || shown >= value.total;
}

// Whoever deletes everything wants nothing of it in this browser either. The key stays: what comes now is its.
function forget() {
  try {
    const ours = Object.keys(localStorage).filter((key) => key.startsWith("reprise.") && key !== "reprise.owner");
    ours.forEach((key) => localStorage.removeItem(key));
  } catch {} // it was never allowed to keep anything
  for (const id of rows.keys()) window.reprisePlayer?.forget(id);
}

function arrive() {
  if (props.value?.forget) forget();
  show(props.value);
}

watch("value", arrive);
arrive(); // what was sent before this script ran
more.addEventListener("click", () => trigger("more", {}));
for (const event of ["playing", "stopped"]) {
  document.addEventListener(`reprise:${event}`, ({ detail }) => rows.get(detail.id)?.sound(event === "playing"));
}
setInterval(() => {
  if (rows.size && !document.hidden && Date.now() - signed > LINKS_LAST) trigger("refresh", {});
}, 30_000);
