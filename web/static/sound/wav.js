// 16-bit mono WAV: the format of uploaded recordings and of downloaded takes.

const WAV_HEADER = 44; // bytes

export function toInt16(samples) {
  return Int16Array.from(samples, (value) => Math.max(-32768, Math.min(32767, Math.round(value * 32768))));
}

// Names of tags in a WAV file's INFO list.
const INFO = { artist: "IART", comment: "ICMT", date: "ICRD" };

// Int16Array → ArrayBuffer. tags: plain ASCII, by the names of INFO, written after the samples.
export function encodeWav(samples, rate, tags = {}) {
  const entries = Object.entries(INFO).flatMap(([name, id]) => (tags[name] ? [[id, `${tags[name]}\0`]] : []));
  const size = entries.reduce((sum, [, value]) => sum + 8 + value.length + (value.length % 2), entries.length ? 12 : 0);
  const bytes = new ArrayBuffer(WAV_HEADER + samples.length * 2 + size);
  const view = new DataView(bytes);
  const text = (at, word) => [...word].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, bytes.byteLength - 8, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // integer PCM
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, samples.length * 2, true);
  new Int16Array(bytes, WAV_HEADER, samples.length).set(samples);
  if (size) writeInfo(view, WAV_HEADER + samples.length * 2, entries, size, text);
  return bytes;
}

function writeInfo(view, start, entries, size, text) {
  text(start, "LIST");
  view.setUint32(start + 4, size - 8, true);
  text(start + 8, "INFO");
  let at = start + 12;
  for (const [id, value] of entries) {
    text(at, id);
    view.setUint32(at + 4, value.length, true);
    text(at + 8, value);
    at += 8 + value.length + (value.length % 2);
  }
}

// ArrayBuffer → { rate, samples }, or null for anything but 16-bit mono WAV.
export function decodeWav(bytes) {
  const view = new DataView(bytes);
  const word = (at) => String.fromCharCode(...new Uint8Array(bytes, at, 4));
  if (bytes.byteLength < WAV_HEADER || word(0) !== "RIFF" || word(8) !== "WAVE") return null;
  let rate = null;
  for (let at = 12; at + 8 <= bytes.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    if (word(at) === "fmt ") {
      const [coding, channels, bits] = [at + 8, at + 10, at + 22].map((place) => view.getUint16(place, true));
      if (coding !== 1 || channels !== 1 || bits !== 16) return null;
      rate = view.getUint32(at + 12, true);
    } else if (word(at) === "data" && rate) {
      const end = Math.min(at + 8 + size, bytes.byteLength);
      const even = (end - at) % 2 ? end - 1 : end;
      return { rate, samples: new Int16Array(bytes.slice(at + 8, even)) };
    }
    at += 8 + size + (size % 2);
  }
  return null;
}
