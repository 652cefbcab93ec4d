// Finds the word of a text that is heard at a time. The model's word times are used as far as they are known. Later words
// are placed by their share of the sound: silence does not count, and a word takes time in proportion to its spoken
// length, as in studio/words/playback_position.py.

import { PEAKS_PER_SECOND } from "../sound/peaks.js";

const SILENT = 0.02; // of full scale
const MARKS = /\[[^\][]*\]|<\|[^|]*\|>/g; // pauses, styles and speakers, which are not spoken

// Splits a text into pieces { text, from, start, end }. from: the piece's offset in code points, as Python counts. start,
// end: a word's place in the spoken length of the text; undefined for other pieces.
export function piecesOf(text, language = "en") {
  const blind = text.replace(MARKS, (mark) => " ".repeat(mark.length));
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  const pieces = [];
  let [spoken, from] = [0, 0];
  let last = null;
  for (const { segment, index, isWordLike } of segmenter.segment(blind)) {
    const piece = { text: text.slice(index, index + segment.length), from };
    const length = [...segment].length;
    from += length;
    if (isWordLike) {
      last = piece;
      Object.assign(piece, { start: spoken, end: (spoken += length + 1) });
    } else if (last && /[.!?…。！？]/.test(segment)) {
      spoken += 2; // a sentence's last syllable is drawn out
      last.end = spoken;
    }
    pieces.push(piece);
  }
  return { pieces, length: spoken };
}

export class WordClock {
  constructor(text, language) {
    Object.assign(this, piecesOf(text, language));
    this.sounding = [0]; // number of peaks with sound before each peak
  }

  // peaks: of the samples that have arrived. expected: estimated seconds of the whole text if the take has only a part of
  // it; else 0. known: words whose times are known, in order: [first character, last character + 1, start in seconds, end
  // in seconds]. Returns the index of the piece that is spoken at `time` seconds; -1 for none.
  at(time, peaks, expected = 0, known = []) {
    const last = known.at(-1);
    if (!last) return this.estimated(time, peaks, expected, 0, 0);
    if (time < last[3]) return this.measured(time, known);
    const spoken = this.within(0, last[1]).at(-1) ?? -1;
    const before = this.pieces[spoken]?.end ?? 0;
    const seconds = expected && Math.max(expected, this.extrapolated(known, before));
    return Math.max(spoken, this.estimated(time, peaks, seconds, last[3], before));
  }

  // Seconds of the whole text at the pace of the known words, which end after `before` of its spoken length.
  extrapolated(known, before) {
    const [[, , begins], [, , , ends]] = [known[0], known.at(-1)];
    return before ? ends + ((ends - begins) * (this.length - before)) / before : 0;
  }

  // As `at`, within the known words. A word of several pieces, such as "well-known", is divided by their lengths.
  measured(time, known) {
    let [low, high] = [0, known.length]; // the first word that begins later
    while (low < high) {
      const middle = (low + high) >> 1;
      if (known[middle][2] > time) high = middle;
      else low = middle + 1;
    }
    if (!low) return -1;
    const [from, to, begins, ends] = known[low - 1];
    const parts = this.within(from, to);
    if (!parts.length) return this.within(0, to).at(-1) ?? -1; // a symbol, which is not segmented as a word
    const { pieces } = this;
    const start = pieces[parts[0]].start;
    const spoken = start + Math.min(1, (time - begins) / (ends - begins || 1)) * (pieces[parts.at(-1)].end - start);
    return parts.findLast((at) => pieces[at].start <= spoken);
  }

  // The indices of the words that begin between two characters of the text.
  within(from, to) {
    const found = [];
    let at = this.pieces.findIndex((piece) => piece.from >= from);
    for (; at >= 0 && at < this.pieces.length && this.pieces[at].from < to; at++) {
      if (this.pieces[at].start !== undefined) found.push(at);
    }
    return found;
  }

  // As `at`, by estimate, for the text after `before` of its spoken length, which begins after `since` seconds.
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
    if (!heard) return -1;
    const spoken = before + (heard / all) * (this.length - before);
    return this.pieces.findLastIndex(({ start }) => start !== undefined && start < spoken);
  }
}
