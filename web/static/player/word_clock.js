// Which word of a text is heard at a moment: words are placed by their share of the sound. Silence does not count, and a
// word takes its share of the time that all take to say, as in studio/heard.py.

import { PEAKS_PER_SECOND } from "../ui/peaks.js";

const SILENT = 0.02; // of full scale
const MARKS = /\[[^\][]*\]|<\|[^|]*\|>/g; // pauses, styles and speakers, which are not said

// A text in pieces { text, start, end }: words have their place in the text's length as spoken, others have none.
export function piecesOf(text, language = "en") {
  const blind = text.replace(MARKS, (mark) => " ".repeat(mark.length));
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  const pieces = [];
  let said = 0;
  let last = null;
  for (const { segment, index, isWordLike } of segmenter.segment(blind)) {
    const piece = { text: text.slice(index, index + segment.length) };
    if (isWordLike) {
      last = piece;
      Object.assign(piece, { start: said, end: (said += [...segment].length + 1) });
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

  // peaks: of what has arrived. expected: seconds that the whole will take, for a take that still arrives.
  // Returns the position of the piece that is said at `time` seconds; -1 for none.
  at(time, peaks, expected = 0) {
    const { sounding } = this;
    while (sounding.length <= peaks.length) {
      sounding.push(sounding.at(-1) + (peaks[sounding.length - 1] > SILENT ? 1 : 0));
    }
    const moment = Math.max(0, Math.min(peaks.length, Math.floor(time * PEAKS_PER_SECOND)));
    const arrived = sounding[peaks.length];
    const missing = Math.max(0, expected * PEAKS_PER_SECOND - peaks.length);
    const all = arrived + missing * (peaks.length ? arrived / peaks.length : 1);
    if (!all || !sounding[moment]) return -1;
    const said = (sounding[moment] / all) * this.length;
    return this.pieces.findLastIndex(({ start }) => start !== undefined && start < said);
  }
}
