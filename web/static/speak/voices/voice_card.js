// The picked voice: its language, its description, and the recording it was made from. Its value: { id, name, language,
// about, agreed, url }, or null for none. Its event `renew_links` requests it again with a new link.

import { LinkRefresh } from "../link_refresh.js";
import { draw } from "../../ui/icons.js";
import { showPortrait } from "../../library/portraits.js";
import { languageName, soundOf } from "../../library/voices.js";
import { pageLanguage, words } from "../../ui/words.js";

export function mount({ element, props, trigger, watch }) {
  const find = (selector) => element.querySelector(selector);
  const links = new LinkRefresh(() => trigger("renew_links"));
  const sound = () => soundOf(props.value);

  function showPlaying() {
    if (!props.value) return;
    const playing = window.reprisePlayer?.playing === sound();
    find(".rp-hear").dataset.sounding = playing;
    find(".rp-hear-name").textContent = words(playing ? "card.hush" : "card.hear");
  }

  function show() {
    const { value } = props;
    find(".rp-card").hidden = !value;
    if (!value) return;
    showPortrait(find(".rp-card-portrait"), value);
    find(".rp-card-name").textContent = find(".rp-card-name").title = value.name; // a long one is cut off
    find(".rp-language").textContent = languageName(value.language, pageLanguage());
    find(".rp-about").textContent = find(".rp-about").title = value.about; // a long one is cut off
    find(".rp-hear").hidden = !value.url;
    showPlaying();
  }

  find(".rp-hear").onclick = () => {
    const { id, name, url } = props.value;
    const clip = async () => {
      await links.ready();
      return { wav: props.value?.id === id ? props.value.url : url }; // another voice may be picked by then
    };
    window.reprisePlayer.toggle(sound(), clip, { voice: { id, name }, status: words("card.clip_of", { name }) });
  };
  find(".rp-card-change").onclick = (event) => {
    event.stopPropagation(); // a click elsewhere closes the sheet
    window.repriseRail.open(event.currentTarget);
  };
  draw(element);
  document.addEventListener("reprise:playing", showPlaying);
  document.addEventListener("reprise:stopped", showPlaying);
  document.addEventListener("reprise:coloured", show);
  watch("value", () => {
    links.arrived();
    show();
  });
  show();
}
