// Further takes of a text, requested with the one that Speak begins. Their group is the ticket of that one.

export class Batches {
  // trigger(event, data): sends `speak_more` and `stop_speech`, with tickets. voicePicked(): resolves once a voice is picked.
  constructor(trigger, voicePicked) {
    Object.assign(this, { trigger, voicePicked });
    this.tickets = new Map(); // of further takes being spoken, by group
    this.group = null; // of the take that is played while it is generated; null if it is the only one
  }

  // Called when a take begins. more: the number of further takes.
  begun(ticket, more) {
    this.group = more < 1 ? null : ticket;
    if (more < 1) return;
    const tickets = Array.from({ length: more }, (_, i) => `${ticket}-${i + 2}`);
    this.tickets.set(ticket, tickets);
    this.tell();
    this.request(ticket, tickets);
  }

  // Waits for a voice, as the take that Speak begins does, and sends nothing if that take is stopped meanwhile.
  async request(ticket, tickets) {
    await this.voicePicked();
    if (window.reprisePlayer.stats.ticket === ticket) this.trigger("speak_more", { tickets });
    else this.end(ticket);
  }

  end(group) {
    this.tickets.delete(group);
    this.tell();
  }

  // Called when their event failed: no more of them will arrive. The server may be speaking them.
  endAll() {
    this.stopAll();
    this.tickets.clear();
    this.tell();
  }

  // The server accepts the tickets of one group.
  stopAll() {
    for (const tickets of this.tickets.values()) this.trigger("stop_speech", { tickets });
  }

  // Tells the player whether there is anything to stop.
  tell() {
    window.reprisePlayer.activity("takes", this.tickets.size ? () => this.stopAll() : null);
  }
}

// The group of a further take's ticket.
export const groupOf = (ticket) => ticket?.replace(/-\d+$/, "");
