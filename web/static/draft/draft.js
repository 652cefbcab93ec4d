// A page's draft, kept across reloads: the entered texts and settings, the voice, and the selected tab. It is stored in
// session storage, by owner: each page of the browser has its own, and other users do not see it.

import { UNCHANGED } from "../connection/answers/latest_answers.js";

const DRAFT = "reprise.draft.";
const VOICE = "reprise.voice."; // also in local storage: new pages begin with the voice picked last
const OWNER = "reprise.draft_owner"; // the last page's owner, used until the server has sent this page's

export class Draft {
  // session, local: storages, which may throw.
  constructor(session, local) {
    Object.assign(this, { session, local, restored: false });
    this.early = {}; // values set before the draft was restored
    this.owner = read(local, OWNER);
  }

  // Called when the server has sent the page's owner, an opaque and unique name. Returns whether it differs from the last
  // page's owner.
  opened(owner) {
    const other = this.owner !== owner;
    this.owner = owner;
    write(this.local, OWNER, owner);
    return other;
  }

  get values() {
    try {
      return JSON.parse(read(this.session, DRAFT + this.owner)) ?? {};
    } catch {
      return {};
    }
  }

  // values: texts, numbers and ids by name. They do not overwrite the draft until it is restored.
  keep(values) {
    if (this.restored) write(this.session, DRAFT + this.owner, JSON.stringify({ ...this.values, ...values }));
    else Object.assign(this.early, values);
  }

  // Returns the values for Gradio to fill into these components. isTouched(name): whether the user has changed one since.
  restore(names, isTouched = () => false) {
    const values = this.restored ? {} : this.values;
    this.restored = true;
    this.keep(Object.fromEntries(Object.entries(this.early).filter(([name]) => isTouched(name))));
    this.early = {};
    return names.map((name) => (Object.hasOwn(values, name) && !isTouched(name) ? values[name] : UNCHANGED));
  }

  get voice() {
    return read(this.session, VOICE + this.owner) ?? read(this.local, VOICE + this.owner);
  }

  set voice(id) {
    for (const storage of [this.session, this.local]) write(storage, VOICE + this.owner, id);
  }
}

function read(storage, key) {
  try {
    return storage().getItem(key);
  } catch {
    return null; // the browser refuses storage
  }
}

function write(storage, key, value) {
  try {
    storage().setItem(key, value);
  } catch {
    // the value is not kept
  }
}
