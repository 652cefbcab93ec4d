// Which word of a text is heard at a moment. Where the model has told when words are spoken, it is believed. Behind the
// last of these, words are placed by their share of the sound: silence does not count, and a word takes its share of the
// time that all take to say, as in studio/heard.py.

import { PEAKS_PER_SECOND } from "../ui/peaks.js";

const SILENT = 0.02; // of full scale
const MARKS = /\[[^\][]*\]|<\|[^|]*\|>/g; // pauses, styles and speakers, which are not said

// A text in pieces { text, from, start, end }. from: characters of the text before it, as Python counts them. Words have
// their place in the text's length as spoken, others have none.
export function piecesOf(text, language = "en") {
  const blind = text.replace(MARKS, (mark) => " ".repeat(mark.length));
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  const pieces = [];
  let [said, from] = [0, 0];
  let last = null;
  for (const { segment, index, isWordLike } of segmenter.segment(blind)) {
    const piece = { text: text.slice(index, index + segment.length), from };
    const length = [...segment].length;
    from += length;
    if (isWordLike) {
      last = piece;
      Object.assign(piece, { start: said, end: (said += length + 1) });
    } else if (last && /[.!?…。！？]/.test(segment)) {
      said += 2; // a sentence's last syllable is drawn out
      last.end = said;
    }
    pieces.push(piece);
  }
  return { pieces, length: said };
}

export class WordClock {
  constructor(text, language) {
    Object.assign(this, piecesOf(text, language));
    this.sounding = [0]; // moments with sound before each moment
  }

  // peaks: of what has arrived. expected: seconds that the whole will take, for a take that still arrives. known: words
  // whose times are known, in order: [first character, last character + 1, seconds of the beginning, and of the end].
  // Returns the position of the piece that is said at `time` seconds; -1 for none.
  at(time, peaks, expected = 0, known = []) {
    const last = known.at(-1);
    if (!last) return this.estimated(time, peaks, expected, 0, 0);
    if (time < last[3]) return this.told(time, known);
    const spoken = this.within(0, last[1]).at(-1) ?? -1;
    return Math.max(spoken, this.estimated(time, peaks, expected, last[3], this.pieces[spoken]?.end ?? 0));
  }

  // The piece of a word whose time is known; a word of several, such as "well-known", is gone through by their length.
  told(time, known) {
    let [low, high] = [0, known.length]; // the first word that begins later
    while (low < high) {
      const middle = (low + high) >> 1;
      if (known[middle][2] > time) high = middle;
      else low = middle + 1;
    }
    if (!low) return -1;
    const [from, to, begins, ends] = known[low - 1];
    const parts = this.within(from, to);
    if (!parts.length) return this.within(0, to).at(-1) ?? -1; // a sign, which is no word of the page's language
    const { pieces } = this;
    const start = pieces[parts[0]].start;
    const said = start + Math.min(1, (time - begins) / (ends - begins || 1)) * (pieces[parts.at(-1)].end - start);
    return parts.findLast((at) => pieces[at].start <= said);
  }

  // The positions of the words that begin between two characters of the text.
  within(from, to) {
    const found = [];
    let at = this.pieces.findIndex((piece) => piece.from >= from);
    for (; at >= 0 && at < this.pieces.length && this.pieces[at].from < to; at++) {
      if (this.pieces[at].start !== undefined) found.push(at);
    }
    return found;
  }

  // As `at`, for what is said after `since` seconds and behind `before` of the text's length.
  estimated(time, peaks, expected, since, before) {
    const { sounding } = this;
    while (sounding.length <= peaks.length) {
      sounding.push(sounding.at(-1) + (peaks[sounding.length - 1] > SILENT ? 1 : 0));
    }
    const moment = (seconds) => Math.max(0, Math.min(peaks.length, Math.floor(seconds * PEAKS_PER_SECOND)));
    const arrived = sounding[peaks.length];
    const missing = Math.max(0, expected * PEAKS_PER_SECOND - peaks.length);
    const skipped = sounding[moment(since)];
    const all = arrived - skipped + missing * (peaks.length ? arrived / peaks.length : 1);
    const heard = sounding[moment(time)] - skipped;
    if (!all || !heard) return -1;
    const said = before + (heard / all) * (this.length - before);
    return this.pieces.findLastIndex(({ start }) => start !== undefined && start < said);
  }
}
