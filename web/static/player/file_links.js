// Links to the files of the player's sounds. Those that come with a sound are valid for minutes only.

import { LinkRefresh } from "../speak/link_refresh.js";

export class FileLinks {
  // request(id): has the server send new links to a sound's files. now, after: as for LinkRefresh.
  constructor(request, now, after) {
    Object.assign(this, { request, now, after, sounds: new Map() }); // by id: { refresh, links }
  }

  // Resolves to valid links to a sound's files, by format.
  async of(id) {
    if (!this.sounds.has(id)) {
      this.sounds.set(id, { refresh: new LinkRefresh(() => this.request(id), this.now, this.after), links: null });
    }
    const sound = this.sounds.get(id);
    await sound.refresh.ready();
    return sound.links;
  }

  // Called when new links have arrived.
  arrived({ id, links }) {
    const sound = this.sounds.get(id);
    if (!sound) return;
    sound.links = links;
    sound.refresh.arrived();
  }
}
