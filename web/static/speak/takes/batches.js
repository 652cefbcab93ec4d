// Further takes of a text, requested with the one that Speak begins. Their group is the ticket of that one.

export class Batches {
  // trigger(event, data): sends `speak_more` and `stop_speech`, with tickets. voicePicked(): resolves once a voice is picked.
  constructor(trigger, voicePicked) {
    Object.assign(this, { trigger, voicePicked });
    this.tickets = new Map(); // of further takes being spoken, by group
    this.refused = 0; // events that the server has not taken, and whose failure is still to be told
    document.addEventListener("reprise:unsent", ({ detail }) => detail?.tickets && this.refuse(detail.tickets));
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

  // The server has not taken the event of a group, or its answer is lost: it may be speaking them.
  refuse(tickets) {
    this.refused += 1;
    this.giveUp(tickets);
    this.end(groupOf(tickets[0]));
  }

  // Called when their event failed: no more of them will arrive. If it was not refused, the messages about all events are lost.
  failed() {
    if (this.refused) {
      this.refused -= 1;
      return;
    }
    this.tickets.forEach((tickets) => this.giveUp(tickets));
    this.tickets.clear();
    this.tell();
  }

  // Has the server end takes that will not arrive, which are not stored.
  giveUp(tickets) {
    this.trigger("stop_speech", { tickets, unheard: true });
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
