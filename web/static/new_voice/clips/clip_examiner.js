// Has the server examine the chosen parts of clips, check their transcripts, and transcribe them.

export class ClipExaminer {
  // server: a ClipServer. recogniser(): { ready }, or undefined without one. examined(): there are findings about a part.
  // changed(): those about a transcript have changed. transcribed(): a transcript was written.
  constructor({ server, recogniser, examined, changed, transcribed }) {
    Object.assign(this, { server, recogniser, examined, changed, transcribed });
  }

  // Has the chosen part examined, once per part, and its transcript checked, or written if it has none.
  async examine(clip) {
    const { part, trim } = clip;
    if (clip.found?.part === part || clip.asked === part) return;
    clip.asked = part;
    const whole = !trim || trim.whole;
    const found = await this.server.ask("examine_clip", clip.value);
    if (whole) clip.best ??= found.best ?? null;
    if (clip.part !== part) return this.examine(clip);
    clip.asked = null;
    clip.find({ ...found, part });
    this.examined();
    const unwritten = !clip.words.trim() || (clip.dictated && clip.moved);
    if (this.recogniser()?.ready && found.speech_seconds && unwritten) this.transcribe(clip, { asked: false });
    else await this.checkTranscript(clip);
  }

  async checkTranscript(clip) {
    const { words: written, speechSeconds, part } = clip;
    if (speechSeconds === null || !written.trim()) return this.changed();
    const { row = null } = await this.server.ask("check_words", { words: written, speech_seconds: speechSeconds });
    if (clip.words !== written || clip.part !== part) return;
    clip.wordsRow = row;
    this.changed();
  }

  // asked: by the user; only then is a failure shown.
  async transcribe(clip, { asked = true } = {}) {
    if (clip.dictating) return;
    const { part, words: before } = clip;
    clip.dictating = true;
    clip.undictated = "";
    this.changed();
    const { words: heard, problem } = await this.server.ask("write_words", clip.value);
    clip.dictating = false;
    if (problem) {
      if (asked) clip.undictated = problem;
    } else if (clip.part === part && clip.words === before) {
      clip.write(heard);
      clip.dictated = true;
      this.transcribed();
    }
    await this.checkTranscript(clip);
  }
}
