// The server's messages about events of the queue. It closes their stream when all events are over. The page may learn that
// an event has joined before it learns that the stream is closed; Gradio would then wait for that event on a closed stream.

const COMPLETED = /^data: \{"msg":"process_completed","event_id":"([^"]+)"/gm;
const CLOSED = /^data: \{"msg":"close_stream".*\n\n/m;

// The ids of the events that are not over. The message that one is over may come before the answer that it has joined.
export class QueuedEvents {
  constructor() {
    this.clear();
  }

  clear() {
    this.waiting = new Set();
    this.early = new Set(); // over before they are known to have joined
  }

  join(id) {
    if (!this.early.delete(id)) this.waiting.add(id);
  }

  complete(id) {
    if (!this.waiting.delete(id)) this.early.add(id);
  }
}

// The messages of one response. A connection may break off within a message, which Gradio could not parse.
export class Messages {
  constructor() {
    this.decoder = new TextDecoder();
    this.rest = ""; // of a message whose end has not arrived
    this.closed = false; // whether the server has closed the stream
    this.continued = false; // whether an event was waiting then
  }

  // Returns the text of the messages that are complete with this chunk; the closing one only if no event is waiting.
  take(chunk, events) {
    const text = this.rest + this.decoder.decode(chunk, { stream: true });
    const end = text.lastIndexOf("\n\n") + 1;
    const [whole, rest] = end ? [text.slice(0, end + 1), text.slice(end + 1)] : ["", text];
    this.rest = rest;
    for (const [, id] of whole.matchAll(COMPLETED)) events.complete(id);
    this.closed = CLOSED.test(whole);
    this.continued = this.closed && events.waiting.size > 0;
    return this.continued ? whole.replace(CLOSED, "") : whole;
  }
}
