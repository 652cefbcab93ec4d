// What the codec keeps of a clip, heard: the server codes its part and makes sound of it again. Needs clip_sound.js.

class Echo {
  // ask(clip): a promise of { wav } or { problem }. changed(): it plays, or no longer does. say(sentence): what went wrong.
  constructor(ask, changed, say) {
    Object.assign(this, { ask, changed, say, listening: new Listening(), asked: null, kept: null });
  }

  get playing() {
    return this.listening.playing;
  }

  // Whether the server is at work for this clip's part.
  waitsFor(clip) {
    return this.asked !== null && this.asked === clip.part;
  }

  async toggle(clip) {
    if (this.playing) return this.stop();
    this.listening.wake(); // in the click
    const file = await this.fileOf(clip);
    if (!file) return;
    await this.listening.play(file, 0, null, () => this.changed());
    this.changed();
  }

  async fileOf(clip) {
    const { part } = clip;
    if (this.kept?.part === part) return this.kept.file;
    this.asked = part;
    this.changed();
    const answer = await this.ask(clip);
    if (this.asked !== part) return null; // it is about something else by now
    this.asked = null;
    this.changed();
    if (answer.problem) this.say(answer.problem);
    if (answer.problem || clip.part !== part) return null;
    this.kept = { part, file: wavOf(answer.wav) };
    return this.kept.file;
  }

  stop() {
    this.asked = null;
    this.listening.stop();
    this.changed();
  }
}

// base64 → Blob
function wavOf(base64) {
  return new Blob([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], { type: "audio/wav" });
}
