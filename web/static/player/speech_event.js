// The Gradio event that speaks a take. Gradio drops a click while the event of the last take is not over, which is up to
// a tenth of a second after the take itself. Such a click is kept and repeated when the event is over.

export class SpeechEvent {
  #underWay = false;
  #start = null; // repeats the click that was kept

  // Returns whether an event can be sent now; otherwise start() is called as soon as it can.
  request(start) {
    if (this.#underWay) this.#start = start;
    return !this.#underWay;
  }

  get requested() {
    return this.#start !== null;
  }

  dropRequest() {
    this.#start = null;
  }

  // Called when the event is sent.
  begun() {
    this.#underWay = true;
  }

  // Called when the event has completed or failed. start() runs in a timer, when Gradio is done with the event.
  over() {
    this.#underWay = false;
    setTimeout(() => {
      const start = this.#start;
      this.#start = null;
      start?.();
    });
  }
}
