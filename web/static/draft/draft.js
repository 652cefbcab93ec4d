// What a page keeps across a reload: the texts and settings that were entered, the voice, and the tab that was shown.
// Session storage holds it, by owner: another page of this browser has its own, and another user does not see it.

import { UNCHANGED } from "../connection/latest_answers.js";

const DRAFT = "reprise.draft.";
const VOICE = "reprise.voice."; // new pages begin with the voice that was picked last, so this one is kept for good
const OWNER = "reprise.draft_owner"; // of the last page; until the server has told who this page's is

export class Draft {
  // session, local: storages, which may throw.
  constructor(session, local) {
    Object.assign(this, { session, local, restored: false });
    this.early = {}; // values that came before the draft was restored
    this.owner = read(local, OWNER);
  }

  // The server has told whose page this is: a name that says nothing, and that no other owner has. Returns whether it is
  // another owner's than the last page was.
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

  // values: texts, numbers and ids by name. Before the draft is restored, it is not overwritten.
  keep(values) {
    if (this.restored) write(this.session, DRAFT + this.owner, JSON.stringify({ ...this.values, ...values }));
    else Object.assign(this.early, values);
  }

  // What Gradio is to fill in, for components of these names. isTouched(name): the user has changed it since.
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
    // it is not kept
  }
}
