// Cuts archives of voices into smaller ones that can be uploaded one after the other. Nothing is unpacked: a part has a range
// of the archive's bytes, and the records of the archive's directory that are about this range.

const END = 0x06054b50; // end of the directory; with another for archives beyond 4 GB, which a locator precedes
const [LOCATOR, END_64] = [0x07064b50, 0x06064b50];
const RECORD = 0x02014b50; // of a file, in the directory
const [END_BYTES, LOCATOR_BYTES, END_64_BYTES, RECORD_BYTES] = [22, 20, 56, 46];
const LONGEST_COMMENT = 0xffff; // at the end of the archive
const ELSEWHERE = 0xffffffff; // a number that is in the extra field of the record
const SIZES_64 = 1; // the extra field with such numbers

// most: { bytes, files } of a part. Resolves to the parts, in order; to the file itself if it is small, or no archive.
export async function partsOf(file, most) {
  const entries = await entriesOf(file).catch(() => []);
  if (entries.length <= most.files && file.size <= most.bytes) return [file];
  const parts = grouped(entries, most).map((entries) => partWith(file, entries));
  return parts.length ? parts : [file];
}

// The files of an archive in the order of their bytes. record: of the directory. begin, end: their range. bytes: when unpacked.
async function entriesOf(file) {
  const tail = await view(file, Math.max(0, file.size - LOCATOR_BYTES - END_BYTES - LONGEST_COMMENT), file.size);
  const last = endIn(tail);
  if (last === -1) return [];
  let [size, begin] = [tail.getUint32(last + 12, true), tail.getUint32(last + 16, true)];
  const locator = last - LOCATOR_BYTES;
  if (locator >= 0 && tail.getUint32(locator, true) === LOCATOR) {
    const place = long(tail, locator + 8);
    const large = await view(file, place, place + END_64_BYTES);
    if (large.getUint32(0, true) !== END_64) return [];
    [size, begin] = [long(large, 40), long(large, 48)];
  }
  const records = recordsOf(await view(file, begin, begin + size));
  const entries = records.map(entryOf).sort((one, other) => one.begin - other.begin);
  entries.forEach((entry, i) => (entry.end = entries[i + 1]?.begin ?? begin));
  return entries;
}

// Where the end of the directory begins, which only a comment follows; -1 if there is none.
function endIn(tail) {
  const comment = (at) => tail.byteLength - at - END_BYTES;
  let at = tail.byteLength - END_BYTES;
  while (at >= 0 && !(tail.getUint32(at, true) === END && tail.getUint16(at + 20, true) === comment(at))) at--;
  return Math.max(at, -1);
}

const view = async (file, begin, end) => new DataView(await file.slice(begin, end).arrayBuffer());
const long = (data, at) => Number(data.getBigUint64(at, true));

function recordsOf(directory) {
  const records = [];
  let at = 0;
  while (at < directory.byteLength) {
    if (directory.getUint32(at, true) !== RECORD) throw new RangeError("no archive");
    const more = [28, 30, 32].map((length) => directory.getUint16(at + length, true)); // name, extra fields, comment
    const bytes = RECORD_BYTES + more.reduce((sum, length) => sum + length);
    records.push(new DataView(directory.buffer, at, bytes));
    at += bytes;
  }
  return records;
}

function entryOf(record) {
  const numbers = [24, 20, 42].map((at) => record.getUint32(at, true)); // size, packed size, place
  let at = RECORD_BYTES + record.getUint16(28, true);
  const stop = at + record.getUint16(30, true);
  while (at < stop && record.getUint16(at, true) !== SIZES_64) at += 4 + record.getUint16(at + 2, true);
  at += 4;
  for (const [i, number] of numbers.entries()) {
    if (number !== ELSEWHERE) continue;
    numbers[i] = long(record, at);
    at += 8;
  }
  return { record, bytes: numbers[0], begin: numbers[2] };
}

function grouped(entries, most) {
  const groups = [];
  let unpacked = 0;
  for (const entry of entries) {
    const group = groups.at(-1);
    unpacked += entry.bytes;
    if (group && group.length < most.files && Math.max(unpacked, entry.end - group[0].begin) <= most.bytes) group.push(entry);
    else {
      groups.push([entry]);
      unpacked = entry.bytes;
    }
  }
  return groups;
}

function partWith(file, entries) {
  const { begin } = entries[0];
  const content = file.slice(begin, entries.at(-1).end);
  const records = entries.map((entry) => {
    const record = new Uint8Array(entry.record.buffer.slice(entry.record.byteOffset, entry.record.byteOffset + entry.record.byteLength));
    new DataView(record.buffer).setUint32(42, entry.begin - begin, true);
    return record;
  });
  const end = new DataView(new ArrayBuffer(END_BYTES));
  end.setUint32(0, END, true);
  for (const at of [8, 10]) end.setUint16(at, entries.length, true);
  end.setUint32(12, records.reduce((sum, { byteLength }) => sum + byteLength, 0), true);
  end.setUint32(16, content.size, true);
  return new File([content, ...records, end], file.name);
}
