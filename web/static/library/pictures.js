// Requests the pictures of voices that are shown. Its value: { pictures }, the answer to its event `fetch`, by the ids of all voices
// that the event named.

import { connectPictures } from "./portraits.js";

const ID = 32; // characters of a voice's id
const TIMEOUT = 10_000; // ms for an answer

export function mount({ props, trigger, watch }) {
  let answered = () => {};
  watch("value", () => answered(props.value?.pictures ?? null));
  document.addEventListener("reprise:back", () => answered(null)); // the request or its answer is lost
  connectPictures((items) => new Promise((resolve) => {
    const voices = items.map((item) => item.slice(0, ID));
    answered = (pictures) => {
      const isLate = pictures && voices.some((id) => !(id in pictures)); // the answer to an earlier event
      if (!isLate) resolve(pictures && Object.fromEntries(items.map((item, at) => [item, pictures[voices[at]]])));
    };
    setTimeout(() => resolve(null), TIMEOUT);
    trigger("fetch", { ids: voices });
  }));
}
