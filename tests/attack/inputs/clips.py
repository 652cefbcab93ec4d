"""Damaged clips: mutations of all supported formats, and crafted files.

A case is the bytes of a file. Reading it must return samples or raise UnusableReference.
"""

import io
import itertools
import random
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.audio.decode import LONGEST, decode
from engine.errors import UnusableReference
from tests.attack.inputs.mutations import damaged

_RATE = 16_000
_SPEECH = Path(__file__).parents[2] / "fixtures" / "speech" / "flite_slt.flac"

# Container and subtype for soundfile; None is the usual one.
_BY_SOUNDFILE: dict[str, tuple[str, str | None]] = {
    **{f"wav {kind}": ("WAV", kind) for kind in ("PCM_16", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM", "GSM610")},
    "flac": ("FLAC", None),
    "ogg vorbis": ("OGG", "VORBIS"),
    "ogg opus": ("OGG", "OPUS"),
    "mp3": ("MP3", None),
    "caf alac": ("CAF", "ALAC_16"),
    **{kind.lower(): (kind, None) for kind in ("AIFF", "AU", "W64", "RF64", "WAVEX", "CAF", "VOC", "NIST", "PAF")},
    **{kind.lower(): (kind, None) for kind in ("SVX", "IRCAM", "AVR", "PVF", "MAT4", "MAT5", "HTK", "MPC2K")},
    "xi": ("XI", "DPCM_16"),
    "sds": ("SDS", "PCM_16"),
}  # fmt: skip
# Rate, container and codec for PyAV.
_BY_AV: dict[str, tuple[int, str, str]] = {
    "m4a": (44_100, "ipod", "aac"),
    "aac": (48_000, "adts", "aac"),
    "webm": (48_000, "webm", "libopus"),
    "ogg opus of a browser": (48_000, "ogg", "libopus"),
    "ts": (44_100, "mpegts", "aac"),
    "ts mp2": (44_100, "mpegts", "mp2"),
    "flv": (44_100, "flv", "aac"),
    "wav adpcm": (8_000, "wav", "adpcm_ima_wav"),
    "avi": (44_100, "avi", "ac3"),
    "mov": (44_100, "mov", "pcm_s16le"),
    "mkv": (44_100, "matroska", "mp3"),
    "wav s64": (16_000, "wav", "pcm_s64le"),
    "mov alac": (44_100, "mov", "alac"),
}


def cases(seed: int, count: int) -> Iterator[bytes]:
    """`count` files: first the crafted ones, then mutations of valid ones."""
    yield from itertools.islice(crafted().values(), count)
    sources = [*sound()]
    for index in range(count - len(crafted())):
        chance = random.Random(f"{seed}:{index}")
        yield damaged(sound_file(sources[index % len(sources)]), chance)


def run(case: bytes) -> None:
    """Read a file. Raises undeclared errors, and AssertionError for impossible samples."""
    with suppress(UnusableReference):
        recording = decode(case)
        samples = recording.samples.numpy()
        assert len(samples) <= (LONGEST + 1) * recording.sample_rate, f"decoding returned {len(samples)} samples"
        assert np.isfinite(samples).all(), "samples are not finite"


def sound() -> tuple[str, ...]:
    """The names of the formats."""
    return (*_BY_SOUNDFILE, *_BY_AV)


@cache
def sound_file(kind: str) -> bytes:
    """A valid file with two seconds of speech in a format."""
    if kind in _BY_AV:
        rate, container, codec = _BY_AV[kind]
        return _written_by_av(_speech(rate), rate, container, codec)
    container, subtype = _BY_SOUNDFILE[kind]
    rate = 8_000 if subtype == "GSM610" else _RATE
    return _written(_speech(rate), rate, container, subtype)


def _speech(rate: int) -> NDArray[np.float32]:
    samples, own = soundfile.read(_SPEECH, dtype="float32", frames=2 * _RATE)
    places = np.arange(0, len(samples), own / rate)
    return np.interp(places, np.arange(len(samples)), samples).astype(np.float32)


def _written(samples: NDArray[np.float32], rate: int, container: str, subtype: str | None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=subtype)
    return file.getvalue()


def _written_by_av(samples: NDArray[np.float32], rate: int, container: str, codec: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout="mono")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray((samples * 32767).astype(np.int16).reshape(1, -1), "s16", "mono")
        frame.sample_rate = rate
        for packet in itertools.chain(stream.encode(frame), stream.encode(None)):
            output.mux(packet)
    return file.getvalue()


@cache
def crafted() -> dict[str, bytes]:
    """Crafted files by their purpose."""
    wav, mp3, aac = sound_file("wav PCM_16"), sound_file("mp3"), sound_file("aac")
    return {
        "nothing": b"",
        "ten minutes in few bytes": _minutes(),
        "header of hours": wav[:4] + b"\xff" * 4 + wav[8:40] + b"\xff" * 4 + wav[44:],
        "one sample a second": _patched(wav, 24, "<I", 1),
        "2 ** 31 samples a second": _patched(wav, 24, "<I", 1 << 31),
        "1,000 channels": _patched(_patched(wav, 22, "<H", 1_000), 32, "<H", 2_000),
        "65,535 channels": _patched(_patched(wav, 22, "<H", 65_535), 32, "<H", 65_534),
        "no channels": _patched(wav, 22, "<H", 0),
        "8 channels of aac": _eight_channels(),
        "a cover of 27 MB, mp3": _covered(mp3),
        "a cover of 27 MB, aac": _covered(aac),
        "a film of large pictures": _film(),
        "20 million samples that are not there": _quicktime(sample_count=20_000_000),
        "2 ** 32 - 1 samples that are not there": _quicktime(sample_count=0xFFFFFFFF),
        "a packet for each sample": _quicktime(sample_count=720_000, chunks=720_000),
        "sound that is in another file": _quicktime(sample_count=16_000, reference=b"/etc/hostname"),
        **{name: text.encode() for name, text in playlists("/etc/hostname").items()},
    }


def playlists(target: str) -> dict[str, str]:
    """Files that refer to another file or address, in every way that FFmpeg supports."""
    mpd = f"<BaseURL>{target}</BaseURL><SegmentTemplate initialization='{target}' media='{target}' duration='1'/>"
    return {
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{target}\n#EXT-X-ENDLIST\n",
        "m3u8 with a key": f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:4,\n{target}\n',
        "m3u8 with a map": f'#EXTM3U\n#EXT-X-MAP:URI="{target}"\n#EXTINF:4,\nconcat:{target}|{target}\n',
        "m3u8 of variants": f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{target}\n",
        "ffconcat": f"ffconcat version 1.0\nfile '{target}'\n",
        "sdp": f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\na=control:{target}\n"
        "m=audio 9 RTP/AVP 0\n",
        "dash": f"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='static' "
        f"mediaPresentationDuration='PT4S'><Period><AdaptationSet mimeType='audio/mp4'>"
        f"<Representation id='1' bandwidth='1'>{mpd}</Representation></AdaptationSet></Period></MPD>",
        "asx": f"<asx version='3.0'><entry><ref href='{target}'/></entry></asx>",
        "smil": f"<smil><body><audio src='{target}'/></body></smil>",
        "ram": f"{target}\n",
    }


def _patched(data: bytes, place: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


def _minutes() -> bytes:
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", _RATE, 1, format="FLAC") as sound:
        sound.write(np.zeros(_RATE * 600, np.int16))
    return file.getvalue()


def _eight_channels() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="adts") as output:
        stream = output.add_stream("aac", rate=48_000, layout="7.1")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8 * 48_000), np.int16), "s16", "7.1")
        frame.sample_rate = 48_000
        for packet in itertools.chain(stream.encode(frame), stream.encode(None)):
            output.mux(packet)
    return file.getvalue()


def _covered(sound: bytes) -> bytes:
    """Audio after an ID3 tag with a picture of 3,000 by 3,000 pixels, compressed to 27 kB."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size, packer = 3_000, zlib.compressobj()
    points = b"".join([packer.compress(bytes(1 + 3 * size)) for _ in range(size)]) + packer.flush()
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", points) + part(b"IEND", b"")
    content = b"\0image/png\0\3\0" + picture
    frame = b"APIC" + struct.pack(">I", len(content)) + b"\0\0" + content
    length = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\3\0\0" + length + frame + sound


def _film() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        picture = output.add_stream("ffv1", rate=5)
        assert isinstance(picture, av.VideoStream)
        picture.width = picture.height = 3_000
        picture.pix_fmt = "yuv420p"
        frame = av.VideoFrame(3_000, 3_000, "yuv420p")
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        for packet in itertools.chain(picture.encode(frame), picture.encode(None)):
            output.mux(packet)
    return file.getvalue()


def _quicktime(sample_count: int, chunks: int = 1, reference: bytes = b"") -> bytes:
    """A raw audio file whose tables refer to missing data or to another file."""

    def box(kind: bytes, *parts: bytes) -> bytes:
        data = b"".join(parts)
        return struct.pack(">I", 8 + len(data)) + kind + data

    def table(kind: bytes, *numbers: int) -> bytes:
        return box(kind, bytes(4), struct.pack(f">{len(numbers)}I", *numbers))

    rate = 8_000
    sound = struct.pack(">HHIHHHHI", 0, 0, 0, 1, 16, 0, 0, rate << 16)
    entry = struct.pack(">I", 36) + b"sowt" + bytes(6) + struct.pack(">H", 1) + sound
    elsewhere = box(b"url ", bytes(4), reference) if reference else box(b"url ", b"\0\0\0\1")
    tables = box(
        b"stbl",
        box(b"stsd", bytes(4), struct.pack(">I", 1), entry),
        table(b"stts", 1, sample_count, 1),
        table(b"stsc", 1, 1, sample_count // chunks, 1),
        table(b"stsz", 2, sample_count),
        table(b"stco", chunks, *(700,) * chunks),
    )
    media = box(
        b"mdia",
        box(b"mdhd", bytes(12), struct.pack(">II", rate, 1_000), bytes(4)),
        box(b"hdlr", bytes(4), b"mhlrsoun", bytes(13)),
        box(
            b"minf",
            box(b"smhd", bytes(8)),
            box(b"dinf", box(b"dref", bytes(4), struct.pack(">I", 1), elsewhere)),
            tables,
        ),
    )
    header = box(b"mvhd", bytes(12), struct.pack(">III", 1_000, 1_000, 0x10000), bytes(76))
    track = box(b"trak", box(b"tkhd", b"\0\0\0\3", bytes(8), struct.pack(">I", 1), bytes(64)), media)
    return box(b"ftyp", b"qt  \0\0\2\0qt  ") + box(b"moov", header, track) + box(b"mdat", bytes(4_000))
