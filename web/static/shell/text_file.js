// Decodes text files.

// The text of UTF-8, of UTF-16 with a byte order mark, else of Windows-1252: spreadsheets save CSV files in each of them.
export function decoded(bytes) {
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
  if (utf16) return new TextDecoder("utf-16le").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
