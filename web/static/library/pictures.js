// Requests the pictures of voices that are shown. Its value: { pictures }, the answer to its event `fetch`.

import { connectPictures } from "./portraits.js";

const ID = 32; // characters of a voice's id
const TIMEOUT = 10_000; // ms for an answer

export function mount({ props, trigger, watch }) {
  let answered = () => {};
  watch("value", () => answered(props.value?.pictures ?? null));
  connectPictures((items) => new Promise((resolve) => {
    answered = (pictures) => resolve(pictures && Object.fromEntries(items.map((item) => [item, pictures[item.slice(0, ID)] ?? ""])));
    setTimeout(() => resolve(null), TIMEOUT);
    trigger("fetch", { ids: items.map((item) => item.slice(0, ID)) });
  }));
}
