// The picked voice: its language, what it is like, and the recording it was made of. Its value: { id, name, language,
// about, url }, or null for none; its event `fresh` has it sent again with a new link.
// Given by the page: element, props, watch, trigger. Needs words.js, fresh.js.

const find = (selector) => element.querySelector(selector);
const fresh = new Fresh(() => trigger("fresh"));
const sound = () => `voice:${props.value.id}`;

function languageName(code) {
  try {
    return new Intl.DisplayNames([document.documentElement.lang || "en"], { type: "language" }).of(code);
  } catch {
    return code; // not a code that browsers know
  }
}

function showPlaying() {
  if (!props.value) return;
  const playing = window.reprisePlayer?.playing === sound();
  find(".rp-hear").dataset.sounding = playing;
  find(".rp-hear span").textContent = words(playing ? "card.hush" : "card.hear");
}

function show() {
  const { value } = props;
  find(".rp-card").hidden = !value;
  if (!value) return;
  find(".rp-language").textContent = value.language ? languageName(value.language) : "";
  find(".rp-about").textContent = value.about;
  find(".rp-hear").hidden = !value.url;
  showPlaying();
}

find(".rp-hear").onclick = async () => {
  await fresh.links();
  const { name, url } = props.value;
  await window.reprisePlayer.toggle(sound(), url, words("card.clip_of", { name }));
};
document.addEventListener("reprise:playing", showPlaying);
document.addEventListener("reprise:stopped", showPlaying);
watch("value", () => {
  fresh.come();
  show();
});
show();
